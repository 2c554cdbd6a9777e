"""A playbook moved to another ledger while others write to it: there the same history goes on, and here it ends.

Invariant: the target commits the whole history at once, `ledger.arrived` included, and only after the source committed
its seal, `ledger.moved`. So no two ledgers ever take events of one playbook, and a move that was killed at any
point has left either the source as it was, or sealed, or the playbook at the target: the same call completes it.
Until the seal, writers write to the source; between the seal and the target's commit they are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from reflector.events.event import LEDGER_ARRIVED, LEDGER_MOVED, Event, NewEvent, identity
from reflector.exchange.cloudevents import Header
from reflector.exchange.transfer import MOVE, Progress, become, checked, exported, grow, locked, stored_of
from reflector.ledger.admission import prepare
from reflector.ledger.canonical import genesis, next_chain
from reflector.ledger.errors import LedgerError
from reflector.ledger.reader import events_where
from reflector.ledger.rebuilding import project_from, rebuild
from reflector.ledger.rows import Head, Stored
from reflector.ledger.statements import Statements
from reflector.ledger.store import Ledger
from reflector.ledger.times import later_than

#: The seal is set when a pass over what was appended meanwhile brings no more events than this, or after some passes.
_FEW: Final = 100
_PASSES: Final = 20


class Parted(LedgerError):
    """Two ledgers of a playbook whose histories differ, so that neither goes on where the other ends."""


def relocate(source: Ledger, url: str, *, actor: str, progress: Progress | None = None) -> Head:
    """Move a playbook to the ledger at a URL, which has none of this name or an earlier state of it; return its head
    there. A playbook that is there already stays as it is. `progress` is called with the number of events that are
    through, page by page.

    Raises LedgerMoved for a playbook that went to another place, Parted, LedgerError.
    """
    with Ledger.open(url, source.name) as target:
        here, there = source.engine.url.place, target.engine.url.place
        moved = source.moved()
        if moved is not None and moved.to != there:
            raise moved
        if here == there:
            return source.head()
        with locked(target) as (sql, head):
            begun = _begin(source, sql, head, there)
            if begun is None:
                return head
            taking = _Taking(source, sql, begun, progress)
            if moved is None:
                for _ in range(_PASSES):
                    if taking.catch_up() <= _FEW:
                        break
                source.append([_seal(source, there, actor)])
            taking.catch_up()
            end = taking.arrive(there, actor)
            if head.position:
                sql.execute(MOVE, end.position, end.chain, end.recorded_at, sql.id)
            else:
                become(sql, Header(end.playbook, end.origin, end.position, end.chain), taking.last)
        return end


def reopen(source: Ledger, *, actor: str) -> None:
    """Let a sealed history go on where it ends, because the ledger that the playbook went to is lost.

    What was recorded there is not in this history. Raises LedgerError.
    """
    seal = source.seal()
    if seal is not None:
        source.append([_arrival(seal, source.engine.url.place, actor)])


def _arrival(seal: Event, place: str, actor: str) -> NewEvent:
    event_id = identity(LEDGER_ARRIVED, seal.event_id)
    return NewEvent(LEDGER_ARRIVED, event_id, {"at": place}, actor, target_id=seal.event_id)


def _begin(source: Ledger, sql: Statements, there: Head, place: str) -> Head | None:
    """Return the head behind which the target lacks events; None where it has taken the playbook over."""
    head = source.head()
    if not there.position:
        return replace(head, position=0, chain=genesis(head.playbook, head.origin), recorded_at="")
    behind = source.at([there.position])
    if behind and behind[0].chain == there.chain:
        return there
    moved = source.moved()
    if moved is not None and events_where(sql, "event_id = ?", moved.arrival):
        return None
    if not behind and _chain_at(sql, head.position) == head.chain:
        raise Parted(
            f"the playbook {head.playbook!r} is ahead in {place}: the ledger that it would move from is an earlier "
            "state of that one; nothing was changed"
        )
    raise Parted(
        f"{place} has a playbook {head.playbook!r} with another history, of {there.position:,} events; nothing was "
        "changed. Name another ledger, or bring its events here first with `reflector import FILE --merge`"
    )


def _chain_at(sql: Statements, position: int) -> str:
    found = sql.run("SELECT chain FROM event WHERE playbook_id = ? AND position = ?", position).fetchone()
    return str(found[0]) if found else ""


def _seal(source: Ledger, to: str, actor: str) -> NewEvent:
    earlier = sum(1 for _ in source.events(types=[LEDGER_MOVED]))
    return NewEvent(LEDGER_MOVED, identity(LEDGER_MOVED, to, earlier), {"to": to}, actor)


class _Taking:
    """The transaction of the target: how far it has taken the history over."""

    def __init__(self, source: Ledger, sql: Statements, begun: Head, progress: Progress | None) -> None:
        self.source = source
        self.sql = sql
        self.head = begun
        self.begun = begun.position
        self.last: Stored | None = None
        self.erased = False
        self.progress = progress

    def catch_up(self) -> int:
        """Take what the source has more; the number of events."""
        before = self.head.position
        _, rest = checked(exported(self.source, after=before), self.head)
        last, erased = grow(self.sql, rest, self.progress)
        if last is not None:
            self._reached(last)
            self.erased = self.erased or erased
            if not self.erased:
                project_from(self.sql, before)
        return self.head.position - before

    def arrive(self, place: str, actor: str) -> Head:
        """Append the event that opens the history again behind the seal; the head."""
        (seal,) = events_where(self.sql, "position = ?", self.head.position)
        event = _arrival(seal, place, actor)
        made = prepare(event)
        time = later_than(self.head.recorded_at)
        stored = stored_of(event, self.head.position + 1, time, (made.data, made.data_hash, made.meta, ""))
        stored = stored._replace(chain=next_chain(self.head.chain, stored[:10], stored.data_hash, made.meta_hash))
        self.sql.insert("event", Stored._fields, [stored])
        if self.erased:
            rebuild(self.sql)
        else:
            project_from(self.sql, self.head.position)
        self._reached(stored)
        return self.head

    def _reached(self, last: Stored) -> None:
        self.last = last
        self.head = replace(self.head, position=last.position, chain=last.chain, recorded_at=last.recorded_at)
