"""What a merged ledger keeps of the other one's history, and the proof that it is that history.

Model: every event that came from another ledger says in its `meta` whose it was, at which position, recorded when. A
`ledger.merged` behind them says up to which head the other ledger was merged, and has the leaf of each event
that was not appended, because it was here already. So the other ledger's chain can be computed from this one alone.

Invariant: `faults` is silent exactly where every merged stretch of another ledger gives the chain that it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from reflector.events import event as ev
from reflector.events.renames import inverse, renamed
from reflector.ledger.canonical import canonical, digest, genesis, leaf, link
from reflector.ledger.rows import Stored
from reflector.ledger.times import just_after

if TYPE_CHECKING:
    from reflector.ledger.statements import Statements

#: The key of `meta` under which an event says where it came from.
MERGED: Final = "merged"

#: (when it was recorded, in which ledger, at which position): the order in which one ledger would have held the events.
Moment = tuple[str, str, int]

_PAGE = 1000
_NOT_A_TAG = "type <> 'bullet.tagged'"
_COLUMNS = ", ".join(Stored._fields)
_OF_A_MERGE = (
    f"SELECT {_COLUMNS} FROM event WHERE playbook_id = ? AND position > ?"  # noqa: S608
    # Doubled for PostgreSQL's driver; to LIKE two are one.
    f" AND (meta LIKE '%%\"{MERGED}\":%%' OR type = '{ev.LEDGER_MERGED}') ORDER BY position LIMIT {_PAGE}"
)


def came_through(meta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what an event's meta says of each ledger through which it came, the last one first."""
    came = meta.get(MERGED)
    while isinstance(came, Mapping):
        yield came
        came = came.get(MERGED)


def first_moment(meta: Mapping[str, Any], own: Moment) -> Moment:
    """Return when and where an event was first appended; `own` if it came from no other ledger."""
    for came in came_through(meta):
        own = (came.get("moment", came["recorded_at"]), came["origin"], came["position"])
    return own


class Clock:
    """The times at which one ledger's own events count as recorded.

    Invariant: an event comes behind all that its ledger knew when it was appended, even if the clocks disagree. So an
    event that was appended behind another machine's events counts as recorded after these, if by a microsecond only.
    """

    def __init__(self) -> None:
        self._known = self._last = ""

    def own(self, recorded_at: str) -> str:
        """Return when the ledger's next event counts as recorded, which is its own."""
        if recorded_at < self._last:
            self._known = max(self._known, self._last)
        if recorded_at <= self._known:
            recorded_at = self._known = just_after(self._known)
        self._last = recorded_at
        return recorded_at

    def came(self, moment: Moment) -> None:
        """Take the ledger's next event, which another ledger first recorded at this moment."""
        self._known = max(self._known, moment[0])


def has_merged(sql: Statements) -> bool:
    """Return whether anything was ever merged into this playbook."""
    query = f"SELECT 1 FROM event WHERE playbook_id = ? AND type = ? AND {_NOT_A_TAG} LIMIT 1"  # noqa: S608
    return sql.run(query, ev.LEDGER_MERGED).fetchone() is not None


def records(sql: Statements) -> Iterator[Mapping[str, Any]]:
    """The data of this ledger's own merges, oldest first; those that it took in from another one are that one's."""
    query = f"SELECT data, meta FROM event WHERE playbook_id = ? AND type = ? AND {_NOT_A_TAG} ORDER BY position"  # noqa: S608
    for data, meta in sql.run(query, ev.LEDGER_MERGED).fetchall():
        if MERGED not in json.loads(meta):
            yield json.loads(data)


def of_merges(sql: Statements) -> Iterator[Stored]:
    """Yield every event that came from another ledger, and every record of a merge, in order."""
    position = 0
    while rows := sql.run(_OF_A_MERGE, position).fetchall():
        for row in rows:
            yield Stored(*row)
        position = rows[-1][0]


def faults(sql: Statements) -> Iterator[tuple[int, str]]:
    """Yield (position, what is wrong) of every merge whose other ledger cannot be proved from this one."""
    if not has_merged(sql):
        return
    name, origin = sql.run("SELECT name, origin FROM playbook WHERE id = ?").fetchone()
    proved = {(origin, 0, genesis(name, origin))}
    waiting: dict[tuple[str, int], bytes] = {}
    for stored in of_merges(sql):
        try:
            came = json.loads(stored.meta).get(MERGED)
            if came is not None:
                waiting[came["origin"], came["position"]] = _leaf_there(stored, came)
                if what := _renamed_otherwise(stored, came):
                    yield stored.position, what
            elif stored.type == ev.LEDGER_MERGED:
                yield from _stretch(sql, stored, origin, waiting, proved)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            yield stored.position, f"what this {stored.type} says of its merge cannot be read ({error!r})"
    for other, position in waiting:
        yield stored.position, f"position {position} of the ledger {other} was merged, and no ledger.merged covers it"
        return


def _stretch(
    sql: Statements,
    stored: Stored,
    origin: str,
    waiting: dict[tuple[str, int], bytes],
    proved: set[tuple[str, int, str]],
) -> Iterator[tuple[int, str]]:
    record = json.loads(stored.data or "{}")
    other, after = record["origin"], record["after"]
    proved.add((other, 0, genesis(record["playbook"], other)))
    start = (other, after["position"], after["chain"])
    if start not in proved and not (other == origin and _stands(sql, start[1], start[2])):
        yield stored.position, f"the merge begins at a head of the ledger {other} that nothing here proves"
    here = {position: bytes.fromhex(found) for position, _, _, found in record["here"]}
    chain = after["chain"]
    for position in range(after["position"] + 1, record["position"] + 1):
        found = waiting.pop((other, position), None) or here.get(position)
        if found is None:
            yield stored.position, f"position {position} of the ledger {other} is missing from its merge"
            return
        chain = link(chain, found)
    if chain != record["chain"]:
        what = f"the merged history of the ledger {other} does not lead to its head at {record['position']}"
        yield stored.position, f"{what}: the chain computed is {chain}, it was {record['chain']}"
    proved.add((other, record["position"], record["chain"]))


def _stands(sql: Statements, position: int, chain: str) -> bool:
    row = sql.run("SELECT chain FROM event WHERE playbook_id = ? AND position = ?", position).fetchone()
    return row is not None and row[0] == chain


def _leaf_there(stored: Stored, came: Mapping[str, Any]) -> bytes:
    """Return the leaf that an event had in the ledger from which it came."""
    meta = {key: value for key, value in json.loads(stored.meta).items() if key != MERGED}
    if came.get(MERGED) is not None:
        meta[MERGED] = came[MERGED]
    header = (
        came["position"],
        came.get("event_id", stored.event_id),
        stored.type,
        stored.schema_version,
        stored.occurred_at,
        came["recorded_at"],
        stored.actor,
        stored.session_id,
        stored.reflection_id,
        came.get("target_id", stored.target_id),
    )
    return leaf(header, came.get("data_hash", stored.data_hash), digest(canonical(meta)))


def _renamed_otherwise(stored: Stored, came: Mapping[str, Any]) -> str | None:
    """What is wrong with an event whose bullets were renamed: under their old names it must be what was appended."""
    if "data_hash" not in came or stored.data is None:
        return None
    data = json.loads(stored.data)
    type_, names = stored.type, inverse(came["renamed"])
    then: Mapping[str, Any]
    if type_ == ev.EVENT_REDACTED:
        then = {**data, "kept": renamed(came["of"], data["kept"], names)}
    else:
        then = renamed(type_, data, names)
    if digest(canonical(then)) == came["data_hash"]:
        return None
    return f"this {type_} is not what was appended to the ledger {came['origin']} under its bullets' names there"
