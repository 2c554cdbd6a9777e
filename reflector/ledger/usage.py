"""How many sessions were told, cited and judged each bullet, and what was last said of it.

Invariant: sessions are counted, not windows or texts, each once for a bullet however many events
say the same. A session without an id is known by the id of its only window, and an event whose text
was redacted says what its redaction kept. Later events change nothing of what the events up to a
position say, so a count goes on from an earlier one: what a session does again counts no more. A
bullet that others were merged into has their sessions, each once, so a merge or its undoing is what
no count goes on behind.

One row a playbook holds these counts and those of answers, to count on from. An answer is the same
with the row and without it: it is what `counted` returns for its position and this `_VERSION`, as
`verify` proves, and one of another version or behind the head counts for nothing. A rebuild, which
every redaction brings, removes it. Asking writes it again once `_STEP` events came, if whoever asks
may write and nobody else is writing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reflector.events.event import (
    BULLET_MERGED,
    BULLET_REMOVED,
    REFLECTION_COMPLETED,
    as_written,
    identity,
)
from reflector.events.registry import RARE_TYPES, TELLING_TYPES, WINDOW_TYPES, fold
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerError, translated
from reflector.ledger.reader import AT_ONCE, Reader, between, events_where, of_types, whose
from reflector.ledger.statements import Statements

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.answers import Answers

_T = TypeVar("_T")
#: Raised when the same events come to other counts, or a price of a model changes.
_VERSION: Final = 6
#: So many events are counted at each question sooner than the row is written for them.
_STEP: Final = 1000
_ROW: Final = "SELECT position, state FROM cached_usage WHERE playbook_id = ? AND code_version = ?"
_HEAD_AND_ROW: Final = (
    "SELECT playbook.position, cached_usage.position, state FROM playbook"
    " LEFT JOIN cached_usage ON playbook_id = id AND code_version = ? WHERE id = ?"
)
_HEAD: Final = "SELECT position FROM playbook WHERE id = ?"
#: How many verdicts a trend has, and how it shows them by their tags: 0, 1, -1.
TREND: Final = 8
MARKS: Final = ".+-"
_TAGS = (
    "SELECT position, name, tag, session_id, reflection_id FROM tag WHERE playbook_id = ? AND "
    "position > ?"
    " AND position <= ? ORDER BY position"
)
_WINDOWS_OF = (
    "SELECT done.reflection_id, done.position, seen.occurred_at FROM event done JOIN event seen "
    "USING (playbook_id)"
    " WHERE playbook_id = ? AND seen.event_id = done.target_id AND done.event_id IN ? AND "
    "done.position <= ?"
)
_BROKEN = (
    "SELECT name FROM tag WHERE playbook_id = ? AND position > ? AND position <= ? AND EXISTS "
    "(SELECT 1 FROM event"
    " WHERE event.playbook_id = tag.playbook_id AND event.position = tag.position AND event.data "
    "LIKE ?)"
)
#: Whether any bullet was merged up to a position: by hand, or by a merge of ledgers, whose removals
#: say that the evidence `follows`. An erased removal may have said so.
_MERGES = (
    f"SELECT 1 FROM event WHERE playbook_id = ? AND {of_types((BULLET_MERGED, BULLET_REMOVED))}"  # noqa: S608
    f" AND position <= ? AND (type = '{BULLET_MERGED}' OR data IS NULL OR data LIKE ?) LIMIT 1"
)
_TAGS_OF_SESSIONS = (
    "SELECT position, tag.name, tag.tag, event.session_id FROM event JOIN tag USING (playbook_id, "
    "position)"
    " WHERE playbook_id = ? AND event.session_id IN ? AND position <= ?"
)


@dataclass(slots=True)
class Used:
    """A bullet's counts, in sessions.

    told, cited, judged  were told it, cited it, gave it a verdict, neutral included; `decided` a
                         helpful or harmful one
    last    when the latest session that gave it a verdict was, as the ledger writes time: whoever
            judged it, and when
    helped  the position of its last helpful verdict, retracted or not; `told_then` had been told it
            by then
    trend   the last verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    broken  how many judgements, of whatever verdict, say that it was not followed
    """

    told: int = 0
    cited: int = 0
    judged: int = 0
    decided: int = 0
    last: str = ""
    helped: int = 0
    told_then: int = 0
    trend: str = ""
    broken: int = 0


@dataclass(slots=True)
class Usage:
    """The counts of every bullet, and how many texts were told."""

    texts: int = 0
    bullets: dict[str, Used] = field(default_factory=lambda: defaultdict(Used))

    def dump(self) -> list[Any]:
        """Return the counts as JSON holds them."""
        return [
            self.texts,
            {name: astuple(used) for name, used in sorted(self.bullets.items()) if used != Used()},
        ]

    @property
    def told(self) -> dict[str, int]:
        """How many sessions were told each bullet that any was told, by its name."""
        return {name: used.told for name, used in self.bullets.items() if used.told}

    @property
    def idle(self) -> dict[str, int]:
        """How many of them were told it since a verdict last said that it helped, or ever."""
        return {
            name: used.told - used.told_then for name, used in self.bullets.items() if used.told
        }

    @classmethod
    def load(cls, state: Any) -> Usage:
        """Return the counts that `dump` gave."""
        found = cls(state[0])
        found.bullets.update({name: Used(*counts) for name, counts in state[1].items()})
        return found


#: What a session did with a bullet: told, cited, judged or decided; the bullet's name; the session.
_Did = tuple[str, str, str]


def _first(
    heirs: Mapping[str, Collection[str]],
    windows: Iterable[Event],
    tellings: Iterable[Event],
    tags: Iterable[tuple[int, str, int, str]],
) -> dict[_Did, int]:
    """Return the position at which each session first did what; each of these is given oldest
    first.
    """
    found: dict[_Did, int] = {}

    def take(did: str, names: Iterable[str], session: str, position: int) -> None:
        for given in names:
            for name in (given, *heirs.get(given, ())):
                found.setdefault((did, name, session), position)

    for window in windows:
        if not window.fault:
            take(
                "cited",
                (window.data or {}).get("cited") or (),
                window.session_id or window.event_id,
                window.position,
            )
    for one in tellings:
        by = one.session_id or one.target_id  # None: a task of an embedder
        if by is not None and one.data is not None:
            take("told", one.data.get("bullets", ()), by, one.position)
    for position, given, tag, session in tags:
        for name in (given, *heirs.get(given, ())):
            found.setdefault(("judged", name, session), position)
            if tag:
                found.setdefault(("decided", name, session), position)
    return found


def usage(sql: Statements, upto: int, since: tuple[int, Usage] | None = None) -> Usage:
    """Return what the events up to a position say; `since` is an earlier position, and what the
    events said there.
    """
    after, known = since or (0, Usage())
    found, heirs = Usage.load(known.dump()), heirs_at(sql, upto)
    for begin in range(after, upto, AT_ONCE):
        _count(sql, begin, min(begin + AT_ONCE, upto), found, heirs)
    return found


def _count(
    sql: Statements, after: int, upto: int, found: Usage, heirs: Mapping[str, Collection[str]]
) -> None:
    """Count what the events behind one position and up to another say besides."""
    helped: set[str] = set()

    def tags() -> Iterator[tuple[int, str, int, str]]:
        rows = sql.run(_TAGS, after, upto).fetchall()
        ids = [identity(REFLECTION_COMPLETED, one) for one in {row[4] for row in rows} if one]
        seen = {
            one: (at, as_written(time))
            for one, at, time in sql.run(_WINDOWS_OF, ids, upto).fetchall()
        }
        for position, given, tag, session, reflection in rows:
            done, time = seen.get(reflection, (0, ""))
            # nothing that comes behind a tag changes what it says
            time = time if done < position else ""
            for name in (given, *heirs.get(given, ())):
                used = found.bullets[name]
                used.trend = (used.trend + MARKS[tag])[-TREND:]
                used.last = max(used.last, time)
                if tag > 0:
                    used.helped = position
                    helped.add(name)
            if session is not None:
                yield position, given, tag, session

    shown = [one for one in between(sql, TELLING_TYPES, after, upto) if one.data is not None]
    found.texts += len(shown)
    new = _first(heirs, between(sql, WINDOW_TYPES, after, upto), shown, tags())
    before = (
        _first(heirs, *_of_sessions(sql, {session for _, _, session in new}, after))
        if after and new
        else {}
    )
    for name in helped:
        found.bullets[name].told_then = found.bullets[name].told
    for did, position in new.items():
        if did not in before:
            used = found.bullets[did[1]]
            setattr(used, did[0], getattr(used, did[0]) + 1)
            used.told_then += did[0] == "told" and did[1] in helped and position <= used.helped
    for (given,) in sql.run(_BROKEN, after, upto, '%"followed":"no"%').fetchall():
        for name in (given, *heirs.get(given, ())):
            found.bullets[name].broken += 1


def _of_sessions(
    sql: Statements, sessions: Collection[str], upto: int
) -> tuple[list[Event], list[Event], list[tuple[int, str, int, str]]]:
    """Return the windows, the tellings and the tags of some sessions up to a position."""

    def events(types: Sequence[str], column: str, more: str = "") -> list[Event]:
        return events_where(
            sql, (f"{whose(types)} AND {column} IN ? AND position <= ?{more}"), sessions, upto
        )

    # A telling without a session is known by its window.
    told = events(TELLING_TYPES, "session_id") + events(
        TELLING_TYPES, "target_id", " AND session_id IS NULL"
    )
    return (
        events(WINDOW_TYPES, "session_id"),
        told,
        sql.run(_TAGS_OF_SESSIONS, sessions, upto).fetchall(),
    )


def heirs_at(sql: Statements, upto: int) -> dict[str, frozenset[str]]:
    """Return the bullets that have the evidence of a merged one besides themselves, by its name,
    at a position.
    """
    if sql.run(_MERGES, upto, '%"follows":true%').fetchone() is None:
        return {}
    book = fold(between(sql, RARE_TYPES, 0, upto))
    return {name: heirs for name in book.entries if (heirs := frozenset(book.heirs(name)))}


def usage_at(ledger: Reader, upto: int | None = None) -> Usage:
    """Return how bullets were used up to a position, None for now. Raises LedgerError."""
    return _at(ledger, upto, 0, Usage.load, usage)


def answers_at(ledger: Reader, upto: int | None = None) -> Answers:
    """Return how many windows there are and what answers took up to a position, None for now.
    Raises LedgerError.
    """
    from reflector.ledger.answers import Answers, answers

    return _at(ledger, upto, 1, Answers.load, answers)


def _at(
    ledger: Reader,
    upto: int | None,
    number: int,
    load: Callable[[Any], _T],
    count: Callable[[Statements, int, tuple[int, _T]], _T],
) -> _T:
    """Return one of the two states, counted on from the row where that counts."""
    with ledger.asking() as sql:
        head, position, state = _known(sql) if upto is None else (upto, 0, EMPTY)
        if upto is not None or head - position < _STEP:
            return count(sql, head, (position, load(state[number])))
        state = counted(sql, head, (position, state))
    _keep(ledger, head, state)
    return load(state[number])


def told_texts(ledger: Reader) -> int:
    """Return how many texts were told, each resume and compaction with its own. Raises
    LedgerError.
    """
    query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {of_types(TELLING_TYPES)}"  # noqa: S608
    with ledger.asking() as sql:
        return int(sql.run(query).fetchone()[0])


def counted(sql: Statements, upto: int, since: tuple[int, Any]) -> list[Any]:
    """Return the state of the row for a position, counted on from that of an earlier one."""
    from reflector.ledger.answers import Answers, answers

    after, state = since
    used = usage(sql, upto, (after, Usage.load(state[0])))
    given = answers(sql, upto, (after, Answers.load(state[1])))
    return [used.dump(), given.dump()]


#: The state before the first event.
EMPTY: Final[list[Any]] = [[0, {}], [0, 0, []]]


def is_sound(sql: Statements) -> bool:
    """Return whether the row, where there is one of this version, is what the events say."""
    row = sql.run(_ROW, _VERSION).fetchone()
    (head,) = sql.run(_HEAD).fetchone()
    return row is None or (
        0 < row[0] <= head and json.loads(row[1]) == _json(counted(sql, row[0], (0, EMPTY)))
    )


def _json(state: list[Any]) -> Any:
    return json.loads(json.dumps(state, default=str))


def _known(sql: Statements) -> tuple[int, int, list[Any]]:
    """Return the head's position, and the row's position and state; 0 and the empty state for no
    row that counts.
    """
    head, position, state = sql.execute(_HEAD_AND_ROW, _VERSION, sql.id).fetchone()
    # Counting on costs more than counting where most of the events are new.
    is_near = position is not None and head // 2 < position <= head
    if is_near and heirs_at(sql, position) == heirs_at(sql, head):
        return head, position, json.loads(state)
    return head, 0, EMPTY


def _keep(ledger: Reader, head: int, state: list[Any]) -> None:
    """Write the row, if that can be done at once and no event came since the counts were made.

    A redaction removes the row, and a row that was counted before it would bring an erased text
    back.
    """
    with (
        suppress(LedgerError),
        translated(ledger.engine.url.shown),
        write_transaction(ledger.engine, wait=False) as driver,
    ):
        to = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        (present_head,) = to.run(_HEAD).fetchone()
        if present_head != head:
            return
        to.run(
            "INSERT INTO cached_usage (playbook_id, code_version, position, state) VALUES (?, ?, "
            "?, ?)"
            " ON CONFLICT (playbook_id) DO UPDATE SET code_version = excluded.code_version,"
            " position = excluded.position, state = excluded.state",
            *(
                _VERSION,
                head,
                json.dumps(state, ensure_ascii=False, separators=(",", ":"), default=str),
            ),
        )
