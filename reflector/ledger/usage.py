"""The number of sessions that were shown, cited and judged each bullet.

Invariant: sessions are counted, not windows or texts, each once for a bullet, however many events
repeat it. A session without an id is identified by the id of its only window. A redacted event
counts by the facts that its redaction kept. Later events do not change the counts as of a position,
so a count can continue from an earlier one, and a session that repeats something counts no more.

After a merge of bullets, the remaining one has the sessions of all, each once. So no count
continues across a merge or its undo. Retractions are not in the row: `take_back` subtracts the
sessions that they cover.

One row for each playbook caches these counts and those of answers. A result is the same with and
without the row. The row is the value of `count_state` for its position and this `_VERSION`, as
`verify` proves. A row of another version or after the head is not used. A rebuild, which every
redaction includes, removes it. A question writes it again after `_STEP` events, if its connection
may write and nothing else is writing.

The counts are SQL because a history has many tags. `UsageFold` in the tests is their definition.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from reflector.events.event import (
    BULLET_MERGED,
    BULLET_REMOVED,
    SESSION_RECORDED,
    as_written,
)
from reflector.events.registry import RARE_TYPES, TELLING_TYPES, WINDOW_TYPES, fold
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerError
from reflector.ledger.reader import (
    AT_ONCE,
    Reader,
    events_where,
    of_types,
    rare_events_between,
    whose,
)
from reflector.ledger.statements import Statements

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.answers import Answers
    from reflector.ledger.as_of import Past

_T = TypeVar("_T")
#: Increased when the same events give other counts, or the price of a model changes.
_VERSION = 8
#: The row is written again after N events; fewer are counted at each question.
_STEP = 1000
_HEAD_AND_ROW = (
    "SELECT playbook.position, cached_usage.position, state FROM playbook"
    " LEFT JOIN cached_usage ON playbook_id = id AND code_version = ? WHERE id = ?"
)
_HEAD = "SELECT position FROM playbook WHERE id = ?"
_WRITE_ROW = (
    "INSERT INTO cached_usage (playbook_id, code_version, position, state) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (playbook_id) DO UPDATE SET code_version = excluded.code_version,"
    " position = excluded.position, state = excluded.state"
)
#: Patterns of a tag's canonical JSON: a neutral verdict, a verdict that does not count because the
#: bullet was not followed, and a bullet that was or was not followed.
_FACTS = (
    '%"disposition":"neutral"%',
    '%"disposition":"not_followed"%',
    '%"followed":"yes"%',
    '%"followed":"no"%',
)
_TAGS = (
    "SELECT tag.position, name, tag, tag.session_id, data LIKE ?, data LIKE ?, data LIKE ?,"
    " data LIKE ? FROM {tags} WHERE playbook_id = ? AND "
)
_OF_PAGE = _TAGS.format(tags="tag JOIN event USING (playbook_id, position)") + (
    "position > ? AND position <= ? ORDER BY position"
)
_OF_SESSIONS = _TAGS.format(tags="event JOIN tag USING (playbook_id, position)") + (
    "event.session_id IN ? AND position <= ?"
)
_RETRACTED = f"{whose(WINDOW_TYPES)} AND event_id IN ? AND position <= ?"
_WINDOWS_OF_SESSIONS = f"{whose(WINDOW_TYPES)} AND session_id IN ? AND position <= ?"
#: Whether any bullet was merged up to a position: by hand, or by a merge of ledgers, whose removals
#: record that the evidence `follows`. An erased removal may have recorded it too.
_MERGES = (
    "SELECT 1 FROM event WHERE playbook_id = ?"  # noqa: S608
    f" AND {of_types((BULLET_MERGED, BULLET_REMOVED))} AND position <= ?"
    f" AND (type = '{BULLET_MERGED}' OR data IS NULL OR data LIKE ?) LIMIT 1"
)
#: (the deed of a session, the bullet's name, the session).
_Deed = tuple[str, str, str]
#: The other bullets that have the evidence of each merged bullet, by its name.
_Heirs = Mapping[str, Collection[str]]


@dataclass(slots=True)
class Used:
    """The numbers of sessions for a rule.

    told        sessions to which reflector showed the rule, with its name
    cited       sessions whose agent cited the rule
    judged      sessions with a verdict on the rule, including neutral verdicts
    decided     sessions with a helpful or harmful verdict on the rule
    undecided   sessions that cited the rule and do not have a verdict on it
    followed    sessions in which the judge found that the agent followed the rule, and never
                the opposite
    broken      sessions in which the judge found that the agent did not follow the rule
    last_cited  the time of the latest part of a session that cites the rule
    helped      the position of the rule's last helpful verdict, retracted or not
    told_then   sessions to which reflector had shown the rule up to the position `helped`
    shown       sessions of `told`, and sessions whose client loaded the rule from your file
    """

    told: int = 0
    cited: int = 0
    judged: int = 0
    decided: int = 0
    undecided: int = 0
    followed: int = 0
    broken: int = 0
    last_cited: str = ""
    helped: int = 0
    told_then: int = 0
    shown: int = 0

    @property
    def neither(self) -> int:
        """The number of sessions whose verdicts on it are all neutral."""
        return self.judged - self.decided


@dataclass(slots=True)
class Usage:
    """The counts of every bullet, and the number of texts that reflector showed."""

    texts: int = 0
    bullets: dict[str, Used] = field(default_factory=lambda: defaultdict(Used))

    def dump(self) -> list[Any]:
        """Return the counts as JSON values."""
        return [
            self.texts,
            {name: astuple(used) for name, used in sorted(self.bullets.items()) if used != Used()},
        ]

    @property
    def told(self) -> dict[str, int]:
        """The number of sessions to which each bullet was shown, by its name. Bullets without such
        a session are omitted.
        """
        return {name: used.told for name, used in self.bullets.items() if used.told}

    @property
    def idle(self) -> dict[str, int]:
        """The number of the sessions of `told` after each bullet's last helpful verdict, by its
        name. Without such a verdict, all sessions count.
        """
        return {
            name: used.told - used.told_then for name, used in self.bullets.items() if used.told
        }

    @classmethod
    def load(cls, state: Any) -> Usage:
        """Return the counts from a result of `dump`."""
        texts, bullets = state
        usage = cls(texts)
        usage.bullets.update({name: Used(*counts) for name, counts in bullets.items()})
        return usage


class _FirstDeeds(dict[_Deed, int]):
    """The position at which each session first did each deed. Events are added oldest first."""

    def __init__(self, heirs: _Heirs) -> None:
        self.heirs = heirs

    def add(self, verb: str, names: Iterable[str], session: str, position: int) -> None:
        for name in names:
            for bullet in (name, *self.heirs.get(name, ())):
                self.setdefault((verb, bullet, session), position)

    @property
    def sessions(self) -> set[str]:
        return {session for _, _, session in self}

    def add_windows(self, windows: Iterable[Event]) -> None:
        for window in windows:
            session = window.session_id or window.event_id
            self.add("cited", _cited(window), session, window.position)

    def add_tellings(self, tellings: Iterable[Event]) -> None:
        for telling in tellings:
            session = telling.session_id or telling.target_id
            if session is not None:  # otherwise it was shown to a task of an embedder
                names = telling.fact("bullets", ())
                self.add("shown", names, session, telling.position)
                if not _is_of_file(telling):
                    self.add("told", names, session, telling.position)

    def add_tags(self, tags: Iterable[_Tag]) -> None:
        """Add the sessions in which a judge decided about a bullet, or found it followed or
        broken.
        """
        for tag in tags:
            if tag.session_id is None:
                continue
            is_verdict = tag.sign or tag.is_neutral
            is_answer = is_verdict or tag.is_refused
            verbs = {
                "judged": is_verdict,
                "decided": tag.sign,
                "followed": is_answer and tag.is_followed,
                "broken": is_answer and tag.is_broken,
            }
            for verb, applies in verbs.items():
                if applies:
                    self.add(verb, (tag.name,), tag.session_id, tag.position)


def _is_of_file(telling: Event) -> bool:
    """Return whether a client loaded rules from your file. No session can cite these."""
    return bool(telling.fact("via") == "file")


class _Tag(NamedTuple):
    """A tag on a bullet, 1, -1 or 0, and the facts of its event."""

    position: int
    name: str
    sign: int
    session_id: str | None
    is_neutral: bool
    is_refused: bool
    is_followed: bool
    is_broken: bool


def _tags(sql: Statements, query: str, *values: object) -> list[_Tag]:
    """Return the tags of a query."""
    rows = sql.execute(query, *_FACTS, sql.id, *values).fetchall()
    return [*map(_Tag._make, rows)]


def _cited(window: Event) -> list[str]:
    """Return the names that a window cites, including those that an earlier window left to it."""
    if window.fault:
        return []
    keys = ("cited", "carried") if window.type == SESSION_RECORDED else ("cited",)
    return [*chain(*(window.fact(key) or () for key in keys))]


def _sums(deeds: Collection[_Deed]) -> Counter[tuple[str, str]]:
    """Return the number of sessions of each deed, by (field of `Used`, bullet).

    A session that cites a bullet without a verdict is `undecided`. One that both followed and broke
    a bullet has not `followed` it.
    """
    sums = Counter((verb, bullet) for verb, bullet, _ in deeds)
    for verb, bullet, session in deeds:
        if verb == "cited" and ("judged", bullet, session) not in deeds:
            sums["undecided", bullet] += 1
        elif verb == "followed" and ("broken", bullet, session) in deeds:
            sums["followed", bullet] -= 1
    return sums


def _replace(usage: Usage, before: Collection[_Deed], after: Collection[_Deed]) -> None:
    """Subtract the sessions from before a change, and add the sessions after it."""
    sums = _sums(after)
    sums.subtract(_sums(before))
    for (verb, bullet), number in sums.items():
        used = usage.bullets[bullet]
        setattr(used, verb, getattr(used, verb) + number)


def count_usage(sql: Statements, upto: int, after: int = 0, state: Any = (0, {})) -> Usage:
    """Return the usage by the events up to a position.

    state  the dump of the usage up to the position `after`, from which the count continues
    """
    usage = Usage.load(state)
    heirs = heirs_at(sql, upto)
    for begin in range(after, upto, AT_ONCE):
        _count_page(sql, begin, min(begin + AT_ONCE, upto), usage, heirs)
    return usage


def _count_page(sql: Statements, after: int, upto: int, usage: Usage, heirs: _Heirs) -> None:
    """Count the events after one position and up to another, and add them to the usage up to the
    first position.
    """
    events = rare_events_between(sql, TELLING_TYPES, after, upto)
    tellings = [telling for telling in events if telling.data is not None]
    tags = _tags(sql, _OF_PAGE, after, upto)
    usage.texts += sum(not _is_of_file(telling) for telling in tellings)
    helped = _add_helpful(tags, usage, heirs)
    windows = [*rare_events_between(sql, WINDOW_TYPES, after, upto)]
    deeds = _FirstDeeds(heirs)
    deeds.add_windows(windows)
    deeds.add_tellings(tellings)
    deeds.add_tags(tags)
    earlier = _deeds_of(sql, heirs, deeds.sessions, after)
    for bullet in helped:
        usage.bullets[bullet].told_then = usage.bullets[bullet].told
    for deed in deeds.keys() - earlier.keys():
        verb, bullet, _ = deed
        used = usage.bullets[bullet]
        if verb == "told" and bullet in helped and deeds[deed] <= used.helped:
            used.told_then += 1
    _replace(usage, earlier, earlier | deeds)
    _note_last(usage, windows, heirs)


def _note_last(usage: Usage, windows: Iterable[Event], heirs: _Heirs) -> None:
    """Note the time of the last citation of each cited bullet."""
    for window in windows:
        time = as_written(window.occurred_at)
        for name in _cited(window):
            for bullet in (name, *heirs.get(name, ())):
                used = usage.bullets[bullet]
                used.last_cited = max(used.last_cited, time)


def _add_helpful(tags: Iterable[_Tag], usage: Usage, heirs: _Heirs) -> set[str]:
    """Note the last helpful verdicts; return the bullets that have one."""
    helped: set[str] = set()
    for tag in tags:
        if tag.sign > 0:
            for bullet in (tag.name, *heirs.get(tag.name, ())):
                usage.bullets[bullet].helped = tag.position
                helped.add(bullet)
    return helped


def _deeds_of(
    sql: Statements,
    heirs: _Heirs,
    sessions: Collection[str],
    upto: int,
) -> _FirstDeeds:
    """Return the deeds of these sessions up to a position."""
    deeds = _FirstDeeds(heirs)
    if upto == 0 or not sessions:
        return deeds

    def events(types: Sequence[str], column: str, more: str = "") -> list[Event]:
        where = f"{whose(types)} AND {column} IN ? AND position <= ?{more}"
        return events_where(sql, where, sessions, upto)

    deeds.add_windows(events(WINDOW_TYPES, "session_id"))
    deeds.add_tellings(events(TELLING_TYPES, "session_id"))
    # A telling without a session is identified by its window.
    deeds.add_tellings(events(TELLING_TYPES, "target_id", " AND session_id IS NULL"))
    deeds.add_tags(_tags(sql, _OF_SESSIONS, sessions, upto))
    return deeds


def take_back(sql: Statements, usage: Usage, past: Past) -> None:
    """Subtract the windows and verdicts that retractions cover from the usage at a position."""
    retracted = events_where(sql, _RETRACTED, past.retracted, past.position)
    without = {*past.covered, *(window.position for window in retracted)}
    if not without:
        return
    query = "SELECT DISTINCT session_id FROM event WHERE playbook_id = ? AND position IN ?"
    sessions = [session for (session,) in sql.rows(query, without) if session]
    heirs = {name: past.heirs(name) for name in past.entries}
    before = _FirstDeeds(heirs)
    after = _FirstDeeds(heirs)
    # A window without a session counts as a session.
    before.add_windows(window for window in retracted if not window.session_id)
    for window in events_where(sql, _WINDOWS_OF_SESSIONS, sessions, past.position):
        before.add_windows([window])
        after.add_windows([window] * (window.position not in without))
    for tag in _tags(sql, _OF_SESSIONS, sessions, past.position):
        before.add_tags([tag])
        after.add_tags([tag] * (tag.position not in without))
    _replace(usage, before, after)
    lost = Usage()
    _note_last(lost, retracted, heirs)
    for name, used in lost.bullets.items():
        if used.last_cited == usage.bullets[name].last_cited:
            _find_last(sql, usage, name, past)


def _find_last(sql: Statements, usage: Usage, name: str, past: Past) -> None:
    """Find the time of the last citation of a bullet in the windows that count."""
    names = past.family(name) if name in past.entries else {name: 0}
    cites = " OR ".join(["data LIKE ?"] * len(names))
    where = f"{of_types(WINDOW_TYPES)} AND position <= ? AND ({cites})"
    windows = events_where(sql, where, past.position, *(f'%"{name}"%' for name in names))
    times = [
        as_written(window.occurred_at)
        for window in windows
        if past.is_active(window.event_id) and not names.keys().isdisjoint(_cited(window))
    ]
    usage.bullets[name].last_cited = max(times, default="")


def heirs_at(sql: Statements, upto: int) -> dict[str, frozenset[str]]:
    """Return the other bullets that have the evidence of each merged bullet at a position, by its
    name.
    """
    if sql.row(_MERGES, upto, '%"follows":true%') is None:
        return {}
    book = fold(rare_events_between(sql, RARE_TYPES, 0, upto))
    heirs = {name: frozenset(book.heirs(name)) for name in book.entries}
    return {name: of_name for name, of_name in heirs.items() if of_name}


def usage_at(ledger: Reader, upto: int | None = None) -> Usage:
    """Return the usage of bullets up to a position, None for now.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    return _counted_at(ledger, upto, 0, Usage.load, count_usage)


def answers_at(ledger: Reader, upto: int | None = None) -> Answers:
    """Return the numbers of windows and the cost of answers up to a position, None for now.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from reflector.ledger.answers import Answers, count_answers

    return _counted_at(ledger, upto, 1, Answers.load, count_answers)


def _counted_at(
    ledger: Reader,
    upto: int | None,
    part: int,
    load: Callable[[Any], _T],
    count: Callable[[Statements, int, int, Any], _T],
) -> _T:
    """Return one part of the state at a position. For the current position, the count continues
    from the row.
    """
    with ledger.asking() as sql:
        if upto is not None:
            return count(sql, upto, 0, EMPTY[part])
        head, row = _head_and_row(sql)
        if head - row.position < _STEP:
            return count(sql, head, row.position, row.state[part])
        state = count_state(sql, head, *row)
    _write_row(ledger, head, state)
    return load(state[part])


def told_texts(ledger: Reader) -> int:
    """Return the number of texts that reflector showed. Each resume and compaction counts.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    where = of_types(TELLING_TYPES)
    query = (
        f"SELECT count(*) FROM event WHERE playbook_id = ? AND {where}"  # noqa: S608
        " AND (data IS NULL OR data NOT LIKE ?)"
    )
    [(texts,)] = ledger.query(query, '%"via":"file"%')
    return int(texts)


#: The state before the first event.
EMPTY: Final[list[Any]] = [[0, {}], [0, 0, []]]


class Row(NamedTuple):
    """The cached counts: [usage, answers] as JSON, up to a position."""

    position: int
    state: list[Any]


def count_state(
    sql: Statements, upto: int, after: int = 0, state: Sequence[Any] = EMPTY
) -> list[Any]:
    """Return the state of the row for a position, continuing from the state of an earlier one."""
    from reflector.ledger.answers import count_answers

    usage = count_usage(sql, upto, after, state[0])
    answers = count_answers(sql, upto, after, state[1])
    return [usage.dump(), answers.dump()]


def is_row_sound(sql: Statements) -> bool:
    """Return whether the row equals a count from the first event; True if there is no row of this
    version.
    """
    head, position, state = sql.execute(_HEAD_AND_ROW, _VERSION, sql.id).fetchone()
    if position is None:
        return True
    if not 0 < position <= head:
        return False
    return bool(json.loads(state) == json.loads(_as_json(count_state(sql, position))))


def _as_json(state: list[Any]) -> str:
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"), default=str)


def _head_and_row(sql: Statements) -> tuple[int, Row]:
    """Return the head, and the row if the count can continue from it, else a row before the first
    event.
    """
    head, position, state = sql.execute(_HEAD_AND_ROW, _VERSION, sql.id).fetchone()
    # If most of the events are new, continuing costs more than counting again.
    is_near = position is not None and head // 2 < position <= head
    if is_near and heirs_at(sql, position) == heirs_at(sql, head):
        return head, Row(position, json.loads(state))
    return head, Row(0, EMPTY)


def _write_row(ledger: Reader, head: int, state: list[Any]) -> None:
    """Write the row, if this is possible at once and no event was added since the count.

    A redaction removes the row. A row that was counted before it would bring an erased text back.
    """
    with suppress(LedgerError), write_transaction(ledger.engine, wait=False) as driver:
        sql = ledger.statements(driver)
        (present_head,) = sql.row(_HEAD)
        if present_head == head:
            sql.run(_WRITE_ROW, _VERSION, head, _as_json(state))
