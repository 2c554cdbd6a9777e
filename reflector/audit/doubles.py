"""Double counts: the tags that were counted more than once, the reason, and the totals under each
counting policy.

Invariant: a double is a fact, not an error, because the counting policies differ in the tags that
they count. A tag can be surplus in several classes. `stats --doubles` uses this module.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import TYPE_CHECKING, NamedTuple

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.events.event import SESSION_COPIED, SESSION_RECORDED
from reflector.events.registry import COMPLETION_TYPES
from reflector.ledger.as_of import Past
from reflector.ledger.reader import of_types, rare_events_between
from reflector.playbook.bullet import COUNTINGS, Counting
from reflector.reflection.window import keys_of, twins_of

if TYPE_CHECKING:
    from reflector.events.event import Event
    from reflector.ledger.statements import Statements
    from reflector.ledger.store import Ledger

CLASSES = {
    "D1": "the same verdict twice in one reflection",
    "D2": "helpful and harmful in one reflection",
    "D3": "the same list of verdicts counted twice",
    "D4": "one session judged more than once",
    "D5": "one transcript recorded under two session ids",
    "D6": "overlapping parts of one session",
}
_MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Example:
    """The verdicts on a rule that form one double."""

    name: str
    tag: str
    positions: tuple[int, ...]
    sessions: tuple[str, ...]


@dataclass(slots=True)
class Doubles:
    """A class of doubles: the numbers of surplus verdicts and of their rules, with examples."""

    code: str
    title: str
    tags: int
    bullets: int
    examples: list[Example]


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a bullet."""

    helpful: int
    harmful: int

    def __str__(self) -> str:
        return f"{self.helpful}/{self.harmful}"


@dataclass(frozen=True, slots=True)
class Totals:
    """The counters of a rule under each policy."""

    name: str
    as_applied: Counters
    once_per_reflection: Counters
    once_per_session: Counters


@dataclass(frozen=True, slots=True)
class Copy:
    """A session that begins with records of another session under new ids, which count once."""

    session: str
    of: str
    records: int


@dataclass(frozen=True, slots=True)
class DoubleCounts:
    """The doubles by class, the totals of each rule, and the copied records, which count once."""

    counting: Counting
    classes: tuple[Doubles, ...]
    totals: tuple[Totals, ...]
    copies: tuple[Copy, ...]


def find_double_counts(
    ledger: Ledger, name: str | None = None, past: Past | None = None
) -> DoubleCounts:
    """Return the doubles of a bullet, or of all bullets, as of now or of a moment.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    with ledger.snapshot():
        then = past or Past(ledger)
        standing = Standing(then)
        with ledger.asking() as sql:
            tags = verdicts_in(sql, then.position)
            counted = [tag for tag in tags if tag.tag and standing.fault(tag) is None]
            reflections = _Reflections(sql, then.position, tags, counted)
            surplus = sorted(tag for tag in reflections.surplus() if name in (None, tag.name))
        sessions = {tag.position: tag.session_id for tag in counted}
        classes = [_grouped(code, surplus, sessions) for code in CLASSES]
        # The rows also show a bullet that no event added, which the counters then refuse.
        rows = (past or ledger).rows()
        names = [row.name for row in rows if name in (None, row.name)]
        by_policy = [then.counters(names, counting) for counting in COUNTINGS]
        totals = [
            Totals(bullet, *(Counters(*counters[bullet]) for counters in by_policy))
            for bullet in names
        ]
        copies = tuple(_copies(ledger, then.position))
        return DoubleCounts(then.counting, tuple(classes), tuple(totals), copies)


def _copies(ledger: Ledger, upto: int) -> Iterator[Copy]:
    for event in ledger.events(types=[SESSION_COPIED], upto=upto):
        yield Copy(event.session_id or "", event.facts["of"], event.facts["records"])


_COMPLETIONS = (
    "SELECT reflection_id, session_id, target_id FROM event "  # noqa: S608
    f"WHERE playbook_id = ? AND {of_types(COMPLETION_TYPES)} "
    "AND position <= ? AND reflection_id IS NOT NULL AND target_id IS NOT NULL"
)
_WORD = {1: "helpful", -1: "harmful"}


class _Completion(NamedTuple):
    """A reflection on a window."""

    reflection_id: str
    session_id: str | None
    window_id: str


class _Surplus(NamedTuple):
    """A tag that repeats another one, by class.

    first  the position of the first of the equal tags
    """

    position: int
    code: str
    name: str
    tag: str
    first: int
    reflection: str


class _Pair(NamedTuple):
    """Two reflections in which the same verdict is a double of one class."""

    code: str
    first: str
    second: str


class _Reflections:
    """The reflections of a ledger up to a position, and the tags that repeat another tag.

    tags       every tag, in order
    sessions   of the reflections, by their id
    several    the sessions with more than one reflection; most have one
    positions  of the tags that count, in order, by reflection, then by bullet and verdict
    """

    def __init__(
        self, sql: Statements, upto: int, tags: Sequence[Verdict], counted: Sequence[Verdict]
    ) -> None:
        self.tags = tags
        self.completions = [*map(_Completion._make, sql.rows(_COMPLETIONS, upto))]
        self.sessions = {done.reflection_id: done.session_id for done in self.completions}
        counts = Counter(self.sessions.values())
        self.several = {session for session, count in counts.items() if session and count > 1}
        #: Read once, during the search for pairs, because a window may name thousands of records.
        self.windows = rare_events_between(sql, (SESSION_RECORDED,), 0, upto)
        self.positions: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.tagged_in: dict[str, str] = {}
        for tag in counted:
            if tag.reflection_id is not None:
                self.positions[tag.reflection_id][tag.name, tag.tag].append(tag.position)
                if tag.session_id in self.several:
                    self.tagged_in[tag.reflection_id] = tag.session_id

    def surplus(self) -> Iterator[_Surplus]:
        """Yield the tags that repeat another one. One tag may be in several classes."""
        for reflection, verdicts in self.positions.items():
            yield from _repeated(reflection, verdicts)
            yield from _contradicted(reflection, verdicts)
        yield from self._same_session()
        yield from self._paired()

    def _same_session(self) -> Iterator[_Surplus]:
        """Yield D4: the same verdict in several reflections on one session."""
        places: dict[tuple[str, int, str], list[tuple[int, str]]] = defaultdict(list)
        for reflection, session in self.tagged_in.items():
            for (name, verdict), positions in self.positions[reflection].items():
                places[name, verdict, session].append((positions[0], reflection))
        for (name, verdict, _), reflections in places.items():
            (first, _), *later = sorted(reflections)
            for position, reflection in later:
                yield _Surplus(position, "D4", name, _WORD[verdict], first, reflection)

    def _paired(self) -> Iterator[_Surplus]:
        """Yield D3, D5 and D6: the same verdict in an earlier reflection of a pair."""
        firsts: dict[tuple[str, str, str, int], int] = {}
        for pair in {*self._same_lists(), *self._sharing()}:
            for (name, verdict), positions in self.positions.get(pair.first, {}).items():
                key = (pair.code, pair.second, name, verdict)
                firsts[key] = min(firsts.get(key, positions[0]), positions[0])
        for (code, reflection, name, verdict), first in firsts.items():
            positions = self.positions.get(reflection, {}).get((name, verdict), [])
            if positions and positions[0] > first:
                for position in positions:
                    yield _Surplus(position, code, name, _WORD[verdict], first, reflection)

    def _same_lists(self) -> Iterator[_Pair]:
        """Yield D3: pairs of reflections on one session with the same tags in the same order."""
        lists: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for tag in self.tags:
            session = self.sessions.get(tag.reflection_id or "")
            if session in self.several and session == tag.session_id:
                lists[tag.reflection_id or ""].append((tag.name, tag.tag))
        same: dict[object, list[str]] = defaultdict(list)
        for reflection, verdicts in lists.items():
            same[self.sessions[reflection], tuple(verdicts)].append(reflection)
        for reflections in same.values():
            for first, second in permutations(reflections, 2):
                yield _Pair("D3", first, second)

    def _sharing(self) -> Iterator[_Pair]:
        """Yield D5 and D6: pairs of reflections on windows that share records."""
        reflections: dict[str, list[str]] = defaultdict(list)
        for completion in self.completions:
            reflections[completion.window_id].append(completion.reflection_id)
        for windows in _sharing_windows(self.windows):
            for (one_id, one_session), (other_id, other_session) in permutations(windows, 2):
                code = "D6" if one_session == other_session else "D5"
                for first, second in product(reflections[one_id], reflections[other_id]):
                    yield _Pair(code, first, second)


def _repeated(
    reflection: str, verdicts: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[_Surplus]:
    """Yield D1: the same verdict twice in one reflection."""
    for (name, verdict), (first, *later) in verdicts.items():
        for position in later:
            yield _Surplus(position, "D1", name, _WORD[verdict], first, reflection)


def _contradicted(
    reflection: str, verdicts: Mapping[tuple[str, int], Sequence[int]]
) -> Iterator[_Surplus]:
    """Yield D2: helpful and harmful together in one reflection."""
    for (name, verdict), helpful in verdicts.items():
        harmful = verdicts.get((name, -1), ()) if verdict > 0 else ()
        for pair in zip(helpful, harmful, strict=False):
            yield _Surplus(max(pair), "D2", name, "both", min(pair), reflection)


def _sharing_windows(windows: Iterable[Event]) -> set[tuple[tuple[str, str], ...]]:
    """Return the groups of windows that share a record, each window with its session."""
    first: dict[int, tuple[str, str]] = {}
    holders: dict[int, dict[str, str]] = {}
    for event in windows:
        place = (event.event_id, event.session_id or "")
        for key in (*keys_of(event), *twins_of(event)):
            earlier = first.setdefault(key, place)
            if earlier != place:
                holders.setdefault(key, dict([earlier])).update([place])
    return {tuple(group.items()) for group in holders.values()}


def _grouped(code: str, surplus: Sequence[_Surplus], sessions: Mapping[int, str | None]) -> Doubles:
    """Return one class of doubles from all surplus tags, which are in order of position."""
    surplus = [tag for tag in surplus if tag.code == code]
    doubles: dict[tuple[str, str, object], set[int]] = {}
    for tag in surplus:
        # In D1 and D4, all tags with the same first tag are one double. In the other classes,
        # each reflection is one double.
        double = tag.first if code in ("D1", "D4") else tag.reflection
        doubles.setdefault((tag.name, tag.tag, double), set()).update((tag.first, tag.position))
    examples: list[Example] = []
    for (name, word, _), places in islice(doubles.items(), _MAX_EXAMPLES):
        positions = tuple(sorted(places))
        ids = dict.fromkeys(sessions[position] for position in positions)
        examples.append(Example(name, word, positions, tuple(filter(None, ids))))
    bullets = {tag.name for tag in surplus}
    return Doubles(code, CLASSES[code], len(surplus), len(bullets), examples)
