"""How many sessions were shown, cited and judged each bullet, and what was last said of it.

Invariant: sessions are counted, not windows or texts, each once for a bullet however many events say the same. A bullet
is live in a session when it was live at one of its windows, or is cited by one. A session without an id is known by the
id of its only window, and an event whose text was redacted says what its redaction kept. Later events change nothing of
what the events up to a position say, so a count goes on from an earlier one: the sessions that have events since are
counted out as they were and in as they are. A bullet that others were merged into has their sessions, each once, so a
merge or its undoing is what no count goes on behind.

One row a playbook holds these counts and those of answers, to count on from. An answer is the same with the row and
without it: it is what `counted` returns for its position and this `_VERSION`, as `verify` proves, and one of another
version or behind the head counts for nothing. A rebuild, which every redaction brings, removes it. Asking writes it
again once `_STEP` events came, if whoever asks may write and nobody else is writing.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reflector.events.event import MAX_INT
from reflector.events.registry import RARE_TYPES, TELLING_TYPES, WINDOW_TYPES, fold
from reflector.ledger.engines import write_transaction
from reflector.ledger.errors import LedgerError, translated
from reflector.ledger.reader import Reader, between, events_where, one_of, whose
from reflector.ledger.statements import Statements

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.answers import Answers

_T = TypeVar("_T")
#: Raised when the same events come to other counts, or a price of a model changes.
_VERSION: Final = 2
#: So many events are counted at each question sooner than the row is written for them.
_STEP: Final = 1000
_ROW: Final = "SELECT position, state FROM cached_usage WHERE playbook_id = ? AND code_version = ?"
_HELPED: Final = (
    "SELECT name, max(position) FROM tag WHERE playbook_id = ? AND active = 1 AND tag = 1 AND position <= ?"
    " GROUP BY name"
)
_HEAD: Final = "SELECT position FROM playbook WHERE id = ?"
#: What lies between two positions.
Span = tuple[int, int]
#: How many verdicts a trend has, and how it shows them by their tags: 0, 1, -1.
TREND: Final = 8
MARKS: Final = ".+-"
_TAGS = "SELECT position, name, tag, session_id FROM tag WHERE playbook_id = ? AND position > ? AND position <= ?"
_TAGS_OF_SESSIONS = (
    "SELECT event.position, tag.name, event.session_id FROM event JOIN tag ON tag.playbook_id = event.playbook_id"
    " AND tag.position = event.position WHERE event.playbook_id = ? AND {} AND event.position <= ? ORDER BY 1"
)


@dataclass(slots=True)
class Used:
    """A bullet's counts, in sessions.

    told, cited  were told it, cited it; told_cited, cited_judged: both of two
    judged       gave it a verdict, neutral included
    live         had a window at which it was live, or cite it; `unknown` of them have no record of what they were told
    last         the position of its last verdict
    helped       the position of its last helpful verdict, retracted or not; `told_then` had been told it by then
    trend        the last verdicts, oldest first: `+` helpful, `-` harmful, `.` neither
    """

    told: int = 0
    cited: int = 0
    told_cited: int = 0
    judged: int = 0
    cited_judged: int = 0
    live: int = 0
    unknown: int = 0
    last: int = 0
    helped: int = 0
    told_then: int = 0
    trend: str = ""


@dataclass(slots=True)
class Usage:
    """The counts of every bullet; `texts` that were told; of how many sessions it is `known` what they were told."""

    texts: int = 0
    known: int = 0
    bullets: dict[str, Used] = field(default_factory=dict)

    def of(self, name: str) -> Used:
        """Return the counts of a bullet."""
        return self.bullets.get(name) or Used()

    def dump(self) -> list[Any]:
        """Return the counts as JSON holds them."""
        return [self.texts, self.known, {name: astuple(used) for name, used in sorted(self.bullets.items())}]

    @classmethod
    def load(cls, state: Any) -> Usage:
        """Return the counts that `dump` gave."""
        texts, known, bullets = state
        return cls(texts, known, {name: Used(*counts) for name, counts in bullets.items()})


class _Facts:
    """What sessions did first and where, by bullet and session; `seen` has the positions of each session's windows."""

    def __init__(self, heirs: Mapping[str, Collection[str]]) -> None:
        self.heirs = heirs
        self.told: dict[str, dict[str, int]] = defaultdict(dict)
        self.cited: dict[str, dict[str, int]] = defaultdict(dict)
        self.judged: dict[str, dict[str, int]] = defaultdict(dict)
        self.known: dict[str, int] = {}
        self.seen: dict[str, list[int]] = defaultdict(list)

    def sessions(self) -> set[str]:
        """Return every session that did anything."""
        found = {*self.seen, *self.known}
        return found.union(*(of for kind in (self.told, self.judged) for of in kind.values()))

    def add(self, windows: Iterable[Event], tellings: Iterable[Event], tags: Iterable[tuple[int, str, str]]) -> None:
        """Take windows, tellings and tags, each oldest first."""
        for window in windows:
            if not window.fault:
                session = window.session_id or window.event_id
                self.seen[session].append(window.position)
                for name in self._with_heirs((window.data or {}).get("cited") or ()):
                    self.cited[name].setdefault(session, window.position)
        for one in tellings:
            by = one.session_id or one.target_id  # None: a task of an embedder
            if by is not None and one.data is not None:
                if "digest" in one.data:  # it was the text at the session's start
                    self.known.setdefault(by, one.position)
                for name in self._with_heirs(one.data.get("bullets", ())):
                    self.told[name].setdefault(by, one.position)
        for position, given, session in tags:
            for name in self._with_heirs([given]):
                self.judged[name].setdefault(session, position)

    def _with_heirs(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield name
            yield from self.heirs.get(name, ())

    def sums(self, upto: int, spans: Mapping[str, list[Span]]) -> dict[str, list[int]]:
        """Return the first seven counts of each bullet that these sessions come to at a position."""

        def then(of: dict[str, int] | None) -> set[str]:
            return {session for session, position in (of or {}).items() if position <= upto}

        live = self._live(upto, spans, then(self.known))
        found: dict[str, list[int]] = {}
        for name in self.told.keys() | self.cited.keys() | self.judged.keys() | live.keys():
            told, cited, judged = (then(kind.get(name)) for kind in (self.told, self.cited, self.judged))
            both = len(told & cited), len(judged), len(cited & judged)
            found[name] = [len(told), len(cited), *both, *live.get(name, (0, 0))]
        return found

    def _live(self, upto: int, spans: Mapping[str, list[Span]], known: Collection[str]) -> dict[str, tuple[int, int]]:
        """Return in how many sessions each bullet was live, and how many of those are not known to be told anything."""
        edges = sorted({edge for of in spans.values() for span in of for edge in span})
        #: Between two edges no bullet's status changes; sessions with windows in the same stretches are one group.
        stretches = {
            session: frozenset(bisect_right(edges, at - 1) for at in positions if at <= upto)
            for session, positions in self.seen.items()
        }
        groups = Counter((among, session in known) for session, among in stretches.items())
        found = {}
        for name in spans.keys() | self.cited.keys():
            at = {
                n
                for first, end in spans.get(name, ())
                for n in range(bisect_right(edges, first), bisect_right(edges, end - 1) + 1)
            }
            live = [(is_known, count) for (among, is_known), count in groups.items() if among & at]
            cited = (session for session, position in self.cited.get(name, {}).items() if position <= upto)
            more = [session for session in cited if session in stretches and not stretches[session] & at]
            number = sum(count for _, count in live) + len(more)
            if number:
                told = sum(count for is_known, count in live if is_known) + sum(one in known for one in more)
                found[name] = (number, number - told)
        return found


def usage(sql: Statements, upto: int, since: tuple[int, Usage] | None = None) -> Usage:
    """Return what the events up to a position say; `since` is an earlier position, and what the events said there."""
    after, known = since or (0, Usage())
    heirs = heirs_at(sql, upto)
    facts, trends = _Facts(heirs), {name: used.trend for name, used in known.bullets.items()}
    last: dict[str, int] = {}
    helped: dict[str, int] = {}

    def tags() -> Iterator[tuple[int, str, str]]:
        for position, given, tag, session in sql.run(f"{_TAGS} ORDER BY position", after, upto):
            for name in (given, *heirs.get(given, ())):
                trends[name] = (trends.get(name, "") + MARKS[tag])[-TREND:]
                last[name] = position
                if tag > 0:
                    helped[name] = position
            if session is not None:
                yield position, given, session

    shown = [one for one in between(sql, TELLING_TYPES, after, upto) if one.data is not None]
    facts.add(between(sql, WINDOW_TYPES, after, upto), shown, tags())
    touched = facts.sessions() if after else set()
    if touched:
        facts = _Facts(heirs)
        among, ids = sql.among("event.session_id", touched)
        judged = sql.run(_TAGS_OF_SESSIONS.format(among), ids, upto).fetchall()
        windows = _of_sessions(sql, WINDOW_TYPES, touched, "event_id", upto)
        facts.add(windows, _of_sessions(sql, TELLING_TYPES, touched, "target_id", upto), judged)
    spans = _live_spans(sql, upto, heirs)
    now, then = facts.sums(upto, spans), facts.sums(after, spans) if touched else {}
    found = Usage(known.texts + len(shown), known.known + sum(at > after for at in facts.known.values()))
    for name in known.bullets.keys() | now.keys() | trends.keys():
        used = known.of(name)
        before = astuple(used)[:7]
        counts = [a - b + c for a, b, c in zip(before, then.get(name, [0] * 7), now.get(name, [0] * 7), strict=True)]
        told_then = used.told_then
        if name in helped:
            told_then = used.told + sum(after < at <= helped[name] for at in facts.told.get(name, {}).values())
        more = last.get(name, used.last), helped.get(name, used.helped), told_then, trends.get(name, "")
        if (of := Used(*counts, *more)) != Used():  # type: ignore[call-arg]
            found.bullets[name] = of
    return found


def _of_sessions(
    sql: Statements, types: Sequence[str], sessions: Collection[str], without: str, upto: int
) -> Iterator[Event]:
    """Yield the events of some sessions; of those without a session, by the column `without`."""
    for column, more in (("session_id", ""), (without, " AND session_id IS NULL")):
        among, ids = sql.among(column, sessions)
        where = f"{whose(types)} AND {among} AND position <= ?{more} ORDER BY position"
        yield from events_where(sql, where, ids, upto)


def heirs_at(sql: Statements, upto: int) -> dict[str, frozenset[str]]:
    """Return the bullets that have the evidence of a merged one besides themselves, by its name, at a position."""
    merged = "SELECT 1 FROM bullet_status WHERE playbook_id = ? AND position <= ? AND status = 'merged'"
    if sql.run(merged, upto).fetchone() is None:
        return {}
    book = fold(between(sql, RARE_TYPES, 0, upto))
    return {name: heirs for name in book.entries if (heirs := frozenset(book.heirs(name)))}


def _live_spans(sql: Statements, upto: int, heirs: Mapping[str, Collection[str]]) -> dict[str, list[Span]]:
    """Return between which positions each bullet was live, by its name."""
    query = "SELECT name, position, status FROM bullet_status WHERE playbook_id = ? AND position <= ?"
    since: dict[str, int] = {}
    found: dict[str, list[Span]] = defaultdict(list)
    for name, position, status in sql.run(f"{query} ORDER BY position", upto).fetchall():
        if name in since:
            found[name].append((since.pop(name), position))
        if status == "live":
            since[name] = position
    for name, start in since.items():
        found[name].append((start, upto + 1))
    for name in found.keys() & heirs.keys():
        for heir in heirs[name]:
            found[heir] += found[name]
    return found


def usage_at(ledger: Reader, upto: int | None = None) -> Usage:
    """Return how bullets were used up to a position, None for now. Raises LedgerError."""
    return _at(ledger, upto, 0, Usage.load, usage)


def answers_at(ledger: Reader, upto: int | None = None) -> Answers:
    """Return how far windows came and what answers took up to a position, None for now. Raises LedgerError."""
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
    return load(_advanced(ledger)[number])


def told_texts(ledger: Reader) -> int:
    """Return how many texts were told, each resume and compaction with its own. Raises LedgerError."""
    query = f"SELECT count(*) FROM event WHERE playbook_id = ? AND {one_of(TELLING_TYPES)}"  # noqa: S608
    with ledger.asking() as sql:
        return int(sql.run(query).fetchone()[0])


@dataclass(frozen=True, slots=True)
class Tellings:
    """What was recorded of tellings up to a position.

    told   how many sessions were told each bullet, by its name
    idle   how many of them were told it since a verdict last said that it helped, or ever
    texts  how many texts were told, each resume and compaction with its own
    """

    told: Mapping[str, int]
    idle: Mapping[str, int]
    texts: int


def tellings(ledger: Reader, upto: int | None = None) -> Tellings:
    """Return what was told up to a position; None for now. Raises LedgerError."""
    used = usage_at(ledger, upto)
    with ledger.asking() as sql:
        helped = dict(sql.run(_HELPED, MAX_INT if upto is None else upto).fetchall())
        idle = {name: one.told - one.told_then for name, one in used.bullets.items() if one.told}
        # A retraction took the last helpful verdict out of the count: what was told by an earlier one is counted.
        earlier = {name: helped.get(name, 0) for name in idle if helped.get(name, 0) != used.bullets[name].helped}
        if earlier:
            shown: dict[str, set[str]] = defaultdict(set)
            for one in between(sql, TELLING_TYPES, 0, max(earlier.values())):
                by = one.session_id or one.target_id
                for name in (one.data or {}).get("bullets", ()) if by is not None else ():
                    if one.position <= earlier.get(name, 0):
                        shown[name].add(by or "")
            idle |= {name: used.bullets[name].told - len(shown[name]) for name in earlier}
    return Tellings({name: used.bullets[name].told for name in idle}, idle, used.texts)


def counted(sql: Statements, upto: int, since: tuple[int, Any]) -> list[Any]:
    """Return the state of the row for a position, counted on from that of an earlier one."""
    from reflector.ledger.answers import Answers, answers

    after, state = since
    used = usage(sql, upto, (after, Usage.load(state[0])))
    given = answers(sql, upto, (after, Answers.load(state[1])))
    return [used.dump(), given.dump()]


#: The state before the first event.
EMPTY: Final[list[Any]] = [[0, 0, {}], [0, 0, {}, [0, 0, 0, "0", 0, 0, 0, 0], []]]


def is_sound(sql: Statements) -> bool:
    """Return whether the row, where there is one of this version, is what the events say."""
    row = sql.run(_ROW, _VERSION).fetchone()
    (head,) = sql.run(_HEAD).fetchone()
    return row is None or (0 < row[0] <= head and json.loads(row[1]) == _json(counted(sql, row[0], (0, EMPTY))))


def _json(state: list[Any]) -> Any:
    return json.loads(json.dumps(state, default=str))


def _known(sql: Statements) -> tuple[int, int, list[Any]]:
    """Return the head's position, and the row's position and state; 0 and the empty state for no row that counts."""
    (head,) = sql.run(_HEAD).fetchone()
    position, state = sql.run(_ROW, _VERSION).fetchone() or (0, "")
    # Counting on costs more than counting where most of the events are new.
    if head // 2 < position <= head and heirs_at(sql, position) == heirs_at(sql, head):
        return head, position, json.loads(state)
    return head, 0, EMPTY


def _advanced(ledger: Reader) -> list[Any]:
    """Return the state at the head, and write the row if that can be done at once."""
    with ledger.asking() as sql:
        head, position, before = _known(sql)
        state = counted(sql, head, (position, before))
    with (
        suppress(LedgerError),
        translated(ledger.engine.url.shown),
        write_transaction(ledger.engine, wait=False) as driver,
    ):
        to = Statements(driver.cursor(), ledger.engine.dialect, ledger.playbook_id)
        to.run(
            "INSERT INTO cached_usage (playbook_id, code_version, position, state) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (playbook_id) DO UPDATE SET code_version = excluded.code_version,"
            " position = excluded.position, state = excluded.state",
            *(_VERSION, head, json.dumps(state, ensure_ascii=False, separators=(",", ":"), default=str)),
        )
    return state
