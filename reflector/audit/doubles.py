"""Double counts: which tags were counted more than once, why, and the totals under each counting
policy.

Invariant: a double is a fact, not an error: the counting policies differ in which of the tags
count. A tag may be surplus in several classes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Final

from reflector.audit.standing import Standing, Verdict, verdicts_in
from reflector.events.event import SESSION_COPIED, SESSION_RECORDED
from reflector.events.fields import unpack_keys
from reflector.events.registry import COMPLETION_TYPES
from reflector.ledger.as_of import Past
from reflector.ledger.reader import between, of_types
from reflector.playbook.bullet import COUNTINGS, Counting

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements
    from reflector.ledger.store import Ledger

CLASSES: Final = {
    "D1": "the same tag twice in one reflection",
    "D2": "helpful and harmful together in one reflection",
    "D3": "the same list of tags applied twice",
    "D4": "one session reflected on more than once",
    "D5": "records of one transcript under two session ids",
    "D6": "overlapping windows of one session",
}
_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Example:
    """A bullet's tags that are one double."""

    name: str
    tag: str
    positions: tuple[int, ...]
    sessions: tuple[str, ...]


@dataclass(slots=True)
class Doubles:
    """A class of doubles: surplus tags, how many bullets have them, and the first few."""

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
    """The counters of a bullet under each policy."""

    name: str
    as_applied: Counters
    once_per_reflection: Counters
    once_per_session: Counters


@dataclass(frozen=True, slots=True)
class Copy:
    """A session that begins with records of another one under new ids. They count once."""

    session: str
    of: str
    records: int


@dataclass(frozen=True, slots=True)
class DoubleCounts:
    """The doubles by class, the totals of each bullet, and the copies that did not count again."""

    counting: Counting
    classes: tuple[Doubles, ...]
    totals: tuple[Totals, ...]
    copies: tuple[Copy, ...]


def double_counts(
    ledger: Ledger, name: str | None = None, past: Past | None = None
) -> DoubleCounts:
    """Return the doubles of a bullet, or of all, as of now or of a moment. Raises LedgerError."""
    with ledger.snapshot():
        then = past or Past(ledger)
        standing = Standing(then)
        with ledger.asking() as sql:
            tags = verdicts_in(sql, then.position)
            counted = [tag for tag in tags if tag.tag and standing.fault(tag) is None]
            rows = sorted(
                row for row in _surplus(sql, then.position, tags, counted) if name in (None, row[2])
            )
        sessions = {tag.position: tag.session_id for tag in counted}
        classes = tuple(
            _grouped(code, [row for row in rows if row[1] == code], sessions) for code in CLASSES
        )
        names = [row.name for row in (past or ledger).rows() if name in (None, row.name)]
        counters = [then.counters(names, counting) for counting in COUNTINGS]
        totals = tuple(Totals(one, *(Counters(*found[one]) for found in counters)) for one in names)
        copied = ledger.events(types=[SESSION_COPIED], upto=then.position)
        copies = [
            Copy(event.session_id or "", event.facts["of"], event.facts["records"])
            for event in copied
        ]
        return DoubleCounts(then.counting, classes, totals, tuple(copies))


_COMPLETIONS: Final = (
    "SELECT reflection_id, session_id, target_id FROM event WHERE playbook_id = ? AND "  # noqa: S608
    f"{of_types(COMPLETION_TYPES)}"
    " AND position <= ? AND reflection_id IS NOT NULL AND target_id IS NOT NULL"
)


#: (position, class, name, tag, position of the first of them, reflection).
_Row = tuple[int, str, str, str, int, str]
_WORD: Final = {1: "helpful", -1: "harmful"}


def _surplus(
    sql: Statements, upto: int, tags: Sequence[Verdict], counted: Sequence[Verdict]
) -> Iterator[_Row]:
    """Yield the tags that repeat another one, by class. Most reflections and sessions have none."""
    completions: list[tuple[str, str | None, str]] = sql.run(_COMPLETIONS, upto).fetchall()
    session_of = {reflection: session for reflection, session, _ in completions}
    several = {
        session for session, count in Counter(session_of.values()).items() if session and count > 1
    }
    given: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for tag in counted:
        if tag.reflection_id is not None:
            given[tag.reflection_id][tag.name, tag.tag].append(tag.position)
    again: dict[tuple[str, int, str], list[tuple[int, str]]] = defaultdict(list)
    sessions = {tag.reflection_id: tag.session_id for tag in counted if tag.session_id in several}
    for reflection, verdicts in given.items():
        for (name, verdict), (first, *more) in verdicts.items():
            yield from (
                (position, "D1", name, _WORD[verdict], first, reflection) for position in more
            )
            if verdict > 0:
                for up, down in zip((first, *more), verdicts.get((name, -1), ()), strict=False):
                    yield (max(up, down), "D2", name, "both", min(up, down), reflection)
            if session := sessions.get(reflection):
                again[name, verdict, session].append((first, reflection))
    for (name, verdict, _), found in again.items():
        (first, _), *later = sorted(found)
        yield from (
            (position, "D4", name, _WORD[verdict], first, reflection)
            for position, reflection in later
        )
    firsts: dict[tuple[str, str, str, int], int] = {}
    for class_, one, other in {
        *_same_lists(tags, session_of, several),
        *_sharing(sql, upto, completions),
    }:
        for (name, verdict), positions in given.get(one, {}).items():
            key = (class_, other, name, verdict)
            firsts[key] = min(firsts.get(key, positions[0]), positions[0])
    for (class_, reflection, name, verdict), first in firsts.items():
        positions = given.get(reflection, {}).get((name, verdict), [])
        if positions and positions[0] > first:
            yield from (
                (position, class_, name, _WORD[verdict], first, reflection)
                for position in positions
            )


def _same_lists(
    tags: Sequence[Verdict], session_of: Mapping[str, str | None], several: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield D3: pairs of reflections on one session that gave the same tags in the same order."""
    lists: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for tag in tags:
        if (
            tag.reflection_id
            and tag.session_id in several
            and session_of.get(tag.reflection_id) == tag.session_id
        ):
            lists[tag.reflection_id].append((tag.name, tag.tag))
    same: dict[object, list[str]] = defaultdict(list)
    for reflection, given in lists.items():
        same[session_of[reflection], tuple(given)].append(reflection)
    for reflections in same.values():
        yield from (("D3", one, other) for one, other in permutations(reflections, 2))


def _sharing(
    sql: Statements, upto: int, completions: Sequence[tuple[str, str | None, str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield D5 and D6: pairs of reflections on windows that share records."""
    reflections: dict[str, list[str]] = defaultdict(list)
    for reflection, _, target in completions:
        reflections[target].append(reflection)
    first: dict[int, tuple[str, str]] = {}
    holders: dict[int, dict[str, str]] = {}
    for event in between(sql, (SESSION_RECORDED,), 0, upto):
        window, this = event.facts.get("window", {}), (event.event_id, event.session_id or "")
        for key in (
            key for part in ("keys", "twins") for key in unpack_keys(window.get(part) or "")
        ):
            if (before := first.setdefault(key, this)) != this:
                holders.setdefault(key, dict([before, this])).update([this])
    for shared in {tuple(of.items()) for of in holders.values()}:
        for (one, of_one), (other, of_other) in permutations(shared, 2):
            class_ = "D6" if of_one == of_other else "D5"
            yield from ((class_, a, b) for a in reflections[one] for b in reflections[other])


def _grouped(code: str, rows: Sequence[_Row], sessions: Mapping[int, str | None]) -> Doubles:
    """Return a class of doubles from its rows, in order of position."""
    found = Doubles(code, CLASSES[code], len(rows), len({bullet for _, _, bullet, *_ in rows}), [])
    doubles: dict[tuple[str, str, object], set[int]] = {}
    for position, _, bullet, tag, first, reflection in rows:
        # Of D1 and D4 one tag is the first of all others; of the rest each reflection is one
        # double.
        one = first if code in ("D1", "D4") else reflection
        doubles.setdefault((bullet, tag, one), set()).update((first, position))
    for (bullet, tag, _), of_one in list(doubles.items())[:_EXAMPLES]:
        of = dict.fromkeys(session for at in sorted(of_one) if (session := sessions[at]))
        found.examples.append(Example(bullet, tag, tuple(sorted(of_one)), tuple(of)))
    return found
