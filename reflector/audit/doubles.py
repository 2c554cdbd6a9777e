"""Double counts: which tags were counted more than once, why, and the totals under each counting policy.

Invariant: the view `doubles` defines what is surplus; this module only groups its rows. A double is a fact, not an
error: the counting policies differ in which of the tags count. A tag may be surplus in several classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from reflector.ledger.as_of import Past
from reflector.ledger.views import view_sql
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
    names = [name] if name is not None else list(then.entries)
    standing = _standing(then) if past is not None else None
    with ledger.asking() as sql:
        rows = _surplus(sql, ledger.name, then.position, standing)
        classes = tuple(_grouped(sql, code, [row for row in rows if row[0] == code], name) for code in CLASSES)
    counters = {counting: then.counters(names, counting) for counting in COUNTINGS}
    totals = {bullet: {counting: counters[counting][bullet] for counting in COUNTINGS} for bullet in names}
    return DoubleCounts(then.counting, classes, totals)


def _standing(then: Past) -> list[int]:
    """Return the positions of the tags that counted at a moment, before a policy makes several of them one."""
    return [position for name in then.entries for position, counts in then.tags_of(name) if counts]


def _surplus(sql: Statements, playbook: str, position: int, standing: list[int] | None) -> list[tuple[Any, ...]]:
    """Return the rows of the view, as of now or, with the tags `standing` at a position, as of that position."""
    if standing is None:
        return list(sql.execute(_ROWS.format(doubles="doubles") + " ORDER BY position", playbook).fetchall())
    # The view's own query over the tables as they were: these names hide the tables of the same names. No table holds
    # the record keys of a moment; with none of them, the query compares the keys of all windows.
    schema = "" if sql.postgres else "main."
    among, values = sql.among("position", standing)
    then = (
        f"WITH event AS NOT MATERIALIZED (SELECT * FROM {schema}event WHERE position <= ? OR type = 'event.redacted'),"  # noqa: S608
        " tag AS MATERIALIZED (SELECT playbook_id, position, name, tag, session_id, reflection_id,"
        f" CASE WHEN {among} THEN 1 ELSE 0 END AS active FROM {schema}tag WHERE position <= ?),"
        f" record AS MATERIALIZED (SELECT * FROM {schema}record WHERE key IS NULL)"
    )
    _, _, query = view_sql("postgresql" if sql.postgres else "sqlite", "doubles").partition(" AS\n")
    rows = f"{then} {_ROWS.format(doubles=f'({query}) AS doubles')} ORDER BY position"
    return list(sql.execute(rows, position, values, position, playbook).fetchall())


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
