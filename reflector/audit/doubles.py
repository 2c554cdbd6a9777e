"""Double counts: what was counted more than once, why, and what each counting policy makes of it.

Invariant: only tags that no retraction covers are examined, and a double is a fact, not an error: the policies differ
in which of them count. A tag may be a double in several ways; each class lists all of its own.

Windows share records only where whole transcripts were recorded or ledgers were merged: as long as the table of
records holds as many keys as the windows brought, no two of them do, and no key is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from reflector.events import event as ev
from reflector.events.event import identity
from reflector.events.record_keys import unpack_keys
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.counting import COUNTINGS, Counting

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
    """A class of doubles: how many tags are surplus by it, of how many bullets, and the first few."""

    code: str
    tags: int = 0
    names: set[str] = field(default_factory=set)
    examples: list[Example] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the class is."""
        return CLASSES[self.code]

    def add(self, name: str, tag: str, tags: Iterable[_Tag], surplus: int) -> None:
        """Tell of tags, `surplus` of which are more than one."""
        tags = sorted(tags)
        self.tags += surplus
        self.names.add(name)
        if len(self.examples) < _EXAMPLES:
            sessions = dict.fromkeys(session for _, _, session, _ in tags if session)
            self.examples.append(Example(name, tag, tuple(tag[0] for tag in tags), tuple(sessions)))


@dataclass(frozen=True, slots=True)
class DoubleCounts:
    """The classes, and every bullet's (helpful, harmful) under each policy."""

    counting: Counting
    classes: tuple[Doubles, ...]
    totals: Mapping[str, Mapping[Counting, tuple[int, int]]]


#: (position, 1 or -1, session's id, reflection's id) of a tag that no retraction covers.
_Tag = tuple[int, int, str | None, str | None]
#: Reflections that are doubles of one another, both ways.
_Twins = dict[str, set[str]]


def double_counts(ledger: Ledger, name: str | None = None, past: Past | None = None) -> DoubleCounts:
    """Return the doubles of a bullet, or of all, as of now or of a moment. Raises LedgerError.

    Of one bullet, the tags of others are not read.
    """
    then = past or Past(ledger, ledger.head().position)
    names = [name] if name is not None else list(then.entries)
    completions = _completions(ledger, then.position) if name is None else _completions_of(ledger, then, name)
    by_list = _same_lists(ledger, then, completions)
    other_session, same_session = _overlapping(ledger, then.position, completions, of_all=name is None)
    across = (("D3", by_list), ("D5", other_session), ("D6", same_session))
    classes = {code: Doubles(code) for code in CLASSES}
    sessions = Counter(session for _, _, session in completions)
    linked = other_session.keys() | same_session.keys()
    for bullet, tags in _together(_standing(ledger, then, name), sessions, linked):
        _within(classes, bullet, tags)
        for code, twins in across:
            _across(classes[code], bullet, tags, twins)
    counters = {counting: then.counters(names, counting) for counting in COUNTINGS}
    totals = {bullet: {counting: counters[counting][bullet] for counting in COUNTINGS} for bullet in names}
    return DoubleCounts(then.counting, tuple(classes.values()), totals)


def _standing(ledger: Ledger, then: Past, name: str | None) -> Iterator[tuple[str, _Tag]]:
    """Yield the tags that count under `as_applied`, with their bullet, in order."""
    covered = then.covered()
    after = {entry.name: entry.recounted_at for entry in then.entries.values()}
    query = (
        "SELECT name, position, tag, session_id, reflection_id FROM tag WHERE playbook_id = ? AND tag <> 0"
        " AND position <= ?"
    )
    with ledger.asking() as sql:
        if name is None:
            rows = sql.run(f"{query} ORDER BY position", then.position)
        else:
            rows = sql.run(f"{query} AND name = ? ORDER BY position", then.position, name)
        while page := rows.fetchmany(10_000):
            for bullet, *tag in page:
                if tag[0] > after.get(bullet, then.position) and tag[0] not in covered:
                    yield bullet, (tag[0], tag[1], tag[2], tag[3])


def _together(
    standing: Iterable[tuple[str, _Tag]], sessions: Mapping[str | None, int], linked: Collection[str]
) -> Iterator[tuple[str, list[_Tag]]]:
    """Tags of one bullet that may be doubles of one another: those of a reflection, and where a session has several
    reflections or a reflection has a double, all of them. So a pass over the tags holds few of them at a time."""
    kept: dict[str, list[_Tag]] = {}
    current: dict[str, list[_Tag]] = {}
    reflection: str | None = None
    for name, tag in standing:
        if sessions.get(tag[2], 0) > 1 or tag[3] in linked:
            kept.setdefault(name, []).append(tag)
            continue
        if tag[3] != reflection:
            yield from ((bullet, tags) for bullet, tags in current.items() if len(tags) > 1)
            current, reflection = {}, tag[3]
        current.setdefault(name, []).append(tag)
    yield from ((bullet, tags) for bullet, tags in current.items() if len(tags) > 1)
    yield from kept.items()


def _within(classes: Mapping[str, Doubles], name: str, tags: Iterable[_Tag]) -> None:
    """D1, D2 and D4, which a bullet's own tags show."""
    reflections: dict[str, dict[int, list[_Tag]]] = {}
    sessions: dict[tuple[str, int], dict[str, _Tag]] = {}
    for tag in tags:
        _, value, session, reflection = tag
        if reflection is not None:
            reflections.setdefault(reflection, {}).setdefault(value, []).append(tag)
            if session is not None:
                sessions.setdefault((session, value), {}).setdefault(reflection, tag)
    for by_value in reflections.values():
        for value, same in by_value.items():
            if len(same) > 1:
                classes["D1"].add(name, _word(value), same, len(same) - 1)
        if len(by_value) > 1:
            both = [tag for same in by_value.values() for tag in same]
            classes["D2"].add(name, "both", both, min(map(len, by_value.values())))
    for (_, value), firsts in sessions.items():
        if len(firsts) > 1:
            classes["D4"].add(name, _word(value), firsts.values(), len(firsts) - 1)


def _across(found: Doubles, name: str, tags: Iterable[_Tag], twins: _Twins) -> None:
    """Tags that the same bullet has from two reflections that are doubles of one another."""
    if not twins:
        return
    given: dict[tuple[str, int], list[_Tag]] = {}
    for tag in sorted(tags):
        if tag[3] in twins:
            given.setdefault((tag[3] or "", tag[1]), []).append(tag)
    told: set[tuple[str, int]] = set()
    for (reflection, value), same in given.items():
        others = [other for other in twins[reflection] if (other, value) in told]
        if others:
            first = [tag for other in others for tag in given[other, value]]
            found.add(name, _word(value), [*first, *same], len(same))
        told.add((reflection, value))


def _word(value: int) -> str:
    return "helpful" if value > 0 else "harmful"


#: (reflection's id, its window's event id, session's id) of a completion.
_Completion = tuple[str, str, str | None]


def _completions(ledger: Ledger, upto: int) -> list[_Completion]:
    query = (
        f"SELECT reflection_id, target_id, session_id FROM event WHERE playbook_id = ? AND position <= ?"  # noqa: S608
        f" AND type = '{ev.REFLECTION_COMPLETED}' AND type <> '{ev.BULLET_TAGGED}' ORDER BY position"
    )
    with ledger.asking() as sql:
        return [(row[0], row[1], row[2]) for row in sql.run(query, upto).fetchall() if row[0] and row[1]]


def _completions_of(ledger: Ledger, then: Past, name: str) -> list[_Completion]:
    """Return the completions of the reflections that gave a bullet a tag: what is double has two of these."""
    reflections = {tag[3] for _, tag in _standing(ledger, then, name) if tag[3] is not None}
    found = ledger.having({identity(ev.REFLECTION_COMPLETED, reflection) for reflection in reflections})
    return [(e.reflection_id, e.target_id, e.session_id) for e in found if e.reflection_id and e.target_id]


def _same_lists(ledger: Ledger, then: Past, completions: Iterable[_Completion]) -> _Twins:
    """Reflections of one session that gave the same list of tags. Few sessions have two, and only theirs are read."""
    sessions: dict[str, list[str]] = {}
    for reflection, _, session in completions:
        if session is not None:
            sessions.setdefault(session, []).append(reflection)
    twins: _Twins = {}
    query = (
        "SELECT tag.reflection_id, tag.name, tag.tag FROM event JOIN tag ON tag.playbook_id = event.playbook_id"
        " AND tag.position = event.position WHERE event.playbook_id = ? AND event.session_id = ?"
        " AND event.position <= ? ORDER BY tag.position"
    )
    with ledger.asking() as sql:
        for session, reflections in sessions.items():
            if len(reflections) < 2:
                continue
            lists: dict[str, list[tuple[str, int]]] = {reflection: [] for reflection in reflections}
            for reflection, name, tag in sql.run(query, session, then.position).fetchall():
                if reflection in lists:
                    lists[reflection].append((name, tag))
            for one, other in combinations(reflections, 2):
                if lists[one] and lists[one] == lists[other]:
                    _pair(twins, one, other)
    return twins


def _overlapping(
    ledger: Ledger, upto: int, completions: Iterable[_Completion], *, of_all: bool
) -> tuple[_Twins, _Twins]:
    """Reflections on windows that share records: of two sessions, and of one."""
    twins: tuple[_Twins, _Twins] = ({}, {})
    pairs = _shared(ledger, upto, None if of_all else {window for _, window, _ in completions})
    if not pairs:
        return twins
    reflections: dict[str, list[str]] = {}
    for reflection, window, _ in completions:
        reflections.setdefault(window, []).append(reflection)
    for (one, one_session), (other, other_session) in pairs:
        for a in reflections.get(one, ()):
            for b in reflections.get(other, ()):
                _pair(twins[one_session == other_session], a, b)
    return twins


#: (event id, session's id) of a window.
_Window = tuple[str, str | None]


def _shared(ledger: Ledger, upto: int, windows: Collection[str] | None) -> set[tuple[_Window, _Window]]:
    """Pairs of windows, of these or of all, that share records."""
    where = f"FROM event WHERE playbook_id = ? AND type = '{ev.SESSION_RECORDED}' AND type <> '{ev.BULLET_TAGGED}'"
    values: list[object] = [upto]
    with ledger.asking() as sql:
        keys = sql.text_at("data", "window", "keys")
        if windows is None:
            # Eight bytes a key, four characters for three bytes; what an erased window brought only its redaction says.
            # Of all windows, whatever moment is asked about: the table holds the keys of all.
            query = f"SELECT sum(length({keys}) * 3 / 4 / 8), count(*) - count(data) {where}"
            brought, erased = sql.run(query).fetchone()
            (held,) = sql.run("SELECT count(*) FROM record WHERE playbook_id = ?").fetchone()
            if not erased and (brought or 0) <= held:
                return set()
        else:
            among, ids = sql.among("event_id", windows)
            where = f"FROM event WHERE playbook_id = ? AND {among}"
            values.insert(0, ids)
        query = f"SELECT event_id, session_id, {keys} {where} AND position <= ? ORDER BY position"
        rows = sql.run(query, *values).fetchall()
    lost = [event_id for event_id, _, packed in rows if packed is None]
    kept = {e.event_id: (e.data or {}).get("window", {}).get("keys") for e in ledger.having(lost)} if lost else {}
    holders: dict[int, tuple[_Window, ...]] = {}
    for event_id, session_id, packed in rows:
        window = (event_id, session_id)
        for key in set(unpack_keys(packed or kept.get(event_id) or "")):
            holders[key] = (*holders.get(key, ()), window)
    # Records come and go together: few sets of windows hold the same ones.
    return {pair for together in set(holders.values()) for pair in combinations(together, 2)}


def _pair(twins: _Twins, one: str, other: str) -> None:
    twins.setdefault(one, set()).add(other)
    twins.setdefault(other, set()).add(one)
