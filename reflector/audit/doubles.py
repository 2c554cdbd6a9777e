"""Double counts: which tags were counted more than once, why, and the totals under each counting policy.

Invariant: the view `doubles` defines what is surplus; this module only groups its rows. A double is a fact, not an
error: the counting policies differ in which of the tags count. A tag may be surplus in several classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from reflector.events.event import REFLECTION_COMPLETED, identity
from reflector.events.registry import COMPLETION_TYPES
from reflector.ledger.as_of import Past
from reflector.ledger.double_tally import DoubleTally
from reflector.ledger.views import view_sql
from reflector.ledger.windows import whose
from reflector.playbook.counting import COUNTINGS, Counting

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
_ROWS: Final = "SELECT class, name, tag, position, of_position, reflection_id FROM {doubles} WHERE playbook = ?"


@dataclass(frozen=True, slots=True)
class Example:
    """A bullet's tags that are one double."""

    name: str
    tag: str
    positions: tuple[int, ...]
    sessions: tuple[str, ...]


@dataclass(slots=True)
class Doubles:
    """A class of doubles: the number of surplus tags, the names of their bullets, and the first few examples."""

    code: str
    tags: int = 0
    names: set[str] = field(default_factory=set)
    examples: list[Example] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the class is."""
        return CLASSES[self.code]


@dataclass(frozen=True, slots=True)
class DoubleCounts:
    """The classes, and every bullet's (helpful, harmful) under each policy."""

    counting: Counting
    classes: tuple[Doubles, ...]
    totals: Mapping[str, Mapping[Counting, tuple[int, int]]]


def double_counts(ledger: Ledger, name: str | None = None, past: Past | None = None) -> DoubleCounts:
    """Return the doubles of a bullet, or of all, as of now or of a moment. Raises LedgerError."""
    then = past or Past(ledger)
    head = then.position if past is None else ledger.head().position
    covered = past.covered() if past is not None else {}
    with ledger.asking() as sql:
        suspects = _suspects(sql, then.position, head)
        standing = [tag for tag in suspects.tags if (tag.active if past is None else _counted(past, covered, tag))]
        rows = _surplus(sql, ledger.name, then.position, suspects, standing)
        classes = tuple(_grouped(sql, code, [row for row in rows if row[0] == code], name) for code in CLASSES)
    counted = {row.name: (row.helpful, row.harmful) for row in (past or ledger).rows() if name in (None, row.name)}
    repeated = {counting: _repeated(standing, counting) for counting in COUNTINGS}
    totals: dict[str, dict[Counting, tuple[int, int]]] = {}
    for bullet, counters in counted.items():
        if len(then.family(bullet)) > 1:
            totals[bullet] = {counting: then.counters([bullet], counting)[bullet] for counting in COUNTINGS}
        else:
            own = repeated[then.counting]
            totals[bullet] = {
                counting: (
                    counters[0] + own[bullet, 1] - repeated[counting][bullet, 1],
                    counters[1] + own[bullet, -1] - repeated[counting][bullet, -1],
                )
                for counting in COUNTINGS
            }
    return DoubleCounts(then.counting, classes, totals)


class _Tag(NamedTuple):
    position: int
    name: str
    tag: int
    active: int
    session_id: str | None
    reflection_id: str | None


@dataclass(frozen=True, slots=True)
class _Suspects:
    """The tags that may be doubles or stand in a list of one; the completions in question, None for all of them, where
    windows share records."""

    tags: Sequence[_Tag]
    completions: Sequence[int] | None


def _suspects(sql: Statements, upto: int, head: int) -> _Suspects:
    fields = ", ".join(f"tag.{field}" for field in _Tag._fields)
    tags = f"SELECT {fields} FROM {{}} WHERE tag.playbook_id = ? AND tag.position <= ?"  # noqa: S608
    (records,) = sql.run("SELECT count(*) FROM record WHERE playbook_id = ?").fetchone()
    now = DoubleTally.at(sql, head)
    if now.keys > records:
        return _Suspects([_Tag(*row) for row in sql.run(tags.format("tag"), upto).fetchall()], None)
    tally = now if upto == head else DoubleTally.at(sql, upto)
    among, values = sql.among("tag.position", tally.tags)
    alone = [_Tag(*row) for row in sql.run(f"{tags.format('tag')} AND {among}", upto, values).fetchall()]
    among, values = sql.among(
        "event_id", {identity(REFLECTION_COMPLETED, tag.reflection_id) for tag in alone if tag.reflection_id}
    )
    done = "SELECT position, session_id FROM event WHERE playbook_id = ? AND position <= ? AND"
    completions = dict(sql.run(f"{done} {among}", upto, values).fetchall())
    sessions = {*tally.sessions, *completions.values(), *(tag.session_id for tag in alone)} - {None}
    among, values = sql.among("event.session_id", sessions)
    completions |= sql.run(f"{done} {among} AND {whose(COMPLETION_TYPES)}", upto, values).fetchall()
    own = "event JOIN tag ON tag.playbook_id = event.playbook_id AND tag.position = event.position"
    rows = sql.run(f"{tags.format(own)} AND event.playbook_id = ? AND {among}", upto, sql.id, values).fetchall()
    return _Suspects(sorted({*alone, *(_Tag(*row) for row in rows)}), list(completions))


def _counted(past: Past, covered: Collection[int], tag: _Tag) -> bool:
    """Return whether a verdict counted at a moment, before a policy makes several of them one."""
    entry = past.entries.get(tag.name)
    return bool(tag.tag) and entry is not None and tag.position > entry.recounted_at and tag.position not in covered


def _repeated(standing: Sequence[_Tag], counting: Counting) -> Counter[tuple[str, int]]:
    """Return how many of these tags count in none but the first policy, by bullet and verdict."""
    seen: set[tuple[str, int, str]] = set()
    found: Counter[tuple[str, int]] = Counter()
    for tag in standing if counting != "as_applied" else ():
        one = tag.reflection_id if counting == "once_per_reflection" else tag.session_id
        if one is not None:
            found[tag.name, tag.tag] += (tag.name, tag.tag, one) in seen
            seen.add((tag.name, tag.tag, one))
    return found


def _surplus(
    sql: Statements, playbook: str, upto: int, suspects: _Suspects, standing: Sequence[_Tag]
) -> list[tuple[Any, ...]]:
    """Return the rows of the view `doubles` at a position, of the tags in question."""
    # The view's own query over the tables as they were: these names hide the tables of the same names. No table holds
    # the record keys of a moment; with none of them, the query compares the keys of all windows that it is given.
    schema = "" if sql.postgres else "main."
    chosen, values = "position <= ? OR type = 'event.redacted'", cast("object", upto)
    if suspects.completions is not None:
        among, values = sql.among("position", [*suspects.completions, *(tag.position for tag in suspects.tags)])
        chosen = f"playbook_id = {sql.id:d} AND {among}"
    given, positions = sql.among("position", [tag.position for tag in suspects.tags])
    counts, counted = sql.among("position", [tag.position for tag in standing])
    then = (
        f"WITH event AS NOT MATERIALIZED (SELECT * FROM {schema}event WHERE {chosen}),"  # noqa: S608
        " tag AS MATERIALIZED (SELECT playbook_id, position, name, tag, session_id, reflection_id,"
        f" CASE WHEN {counts} THEN 1 ELSE 0 END AS active FROM {schema}tag WHERE playbook_id = {sql.id:d} AND {given}),"
        f" record AS MATERIALIZED (SELECT * FROM {schema}record WHERE key IS NULL)"
    )
    _, _, query = view_sql("postgresql" if sql.postgres else "sqlite", "doubles").partition(" AS\n")
    rows = f"{then} {_ROWS.format(doubles=f'({query}) AS doubles')} ORDER BY position"
    return list(sql.execute(rows, values, counted, positions, playbook).fetchall())


def _grouped(sql: Statements, code: str, rows: list[tuple[Any, ...]], name: str | None) -> Doubles:
    """Return a class of doubles from its rows, in order of position: of one bullet, or of all."""
    found = Doubles(code)
    doubles: dict[tuple[str, str, object], set[int]] = {}
    for _, bullet, tag, position, first, reflection in rows:
        if name in (None, bullet):
            found.tags += 1
            found.names.add(bullet)
            # Of D1 and D4 one tag is the first of all others; of the rest each reflection is one double.
            one = first if code in ("D1", "D4") else reflection
            doubles.setdefault((bullet, tag, one), set()).update((first, position))
    for (bullet, tag, _), of_one in list(doubles.items())[:_EXAMPLES]:
        among, values = sql.among("position", of_one)
        query = f"SELECT session_id FROM tag WHERE playbook_id = ? AND {among} ORDER BY position"  # noqa: S608
        sessions = dict.fromkeys(row[0] for row in sql.run(query, values).fetchall() if row[0])
        found.examples.append(Example(bullet, tag, tuple(sorted(of_one)), tuple(sessions)))
    return found
