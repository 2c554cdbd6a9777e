"""What recorded sessions would have been told by another ranking, and which of their citations that would have cost.

Invariant: nothing is written. Each text is chosen from the playbook as of the position at which it was recorded, with
what was known of earlier tellings then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.audit.citations import cited_by_session
from reflector.events.event import ADVICE_TOLD, Event
from reflector.ledger.as_of import Past
from reflector.playbook.ranking import Standing, choose

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.playbook.bullet import Bullet

#: The newest texts that are chosen again: each needs the playbook of its time.
MOST = 200


@dataclass(frozen=True, slots=True)
class Retold:
    """One text that a session was told.

    told     how many bullets it was told, `instead` how many it would have been told
    added    names that it would have been told as well, `dropped` those that it would not have been told
    cited    names that it was told and cited, `lost` those of them that are dropped
    """

    position: int
    session_id: str
    told: int
    instead: int
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    cited: tuple[str, ...]
    lost: tuple[str, ...]


def retold(
    ledger: Ledger,
    past: Past,
    policy: str,
    *,
    pinned: Sequence[str] = (),
    turn: int,
    room: Callable[[int], int],
    cost: Callable[[Bullet, Collection[str]], int],
) -> list[Retold]:
    """Return the newest texts that sessions were told, oldest first, as another policy would have chosen them.

    turn  texts that were told, after which others have their turn
    room  returns the characters for so many bullets; `cost` those that one takes beside others
    Raises LedgerError.
    """
    events = [e for e in ledger.events(types=[ADVICE_TOLD], upto=past.position) if "digest" in (e.data or {})]
    helped = _helped(ledger, past.position)
    cited = cited_by_session(ledger, past.position)
    told: dict[str, dict[str, int]] = {}
    found: list[Retold] = []
    for number, event in enumerate(events):
        if number >= len(events) - MOST:
            counts = {name: len(sessions) for name, sessions in told.items()}
            idle = {name: _idle(told[name], helped.get(name, ()), event.position) for name in told}
            standing = Standing(policy, pinned, counts, idle, number // turn)
            bullets = Past(ledger, event.position - 1).bullets()
            chosen = choose(bullets, standing, room(len(bullets)), cost)
            found.append(_compared(event, {b.name for b in chosen.bullets}, cited.get(_session(event), set())))
        for name in (event.data or {}).get("bullets", ()):
            told.setdefault(name, {}).setdefault(_session(event), event.position)
    return found


def _compared(event: Event, chosen: set[str], cited: set[str]) -> Retold:
    was = set((event.data or {}).get("bullets", ()))
    dropped = was - chosen
    return Retold(
        event.position,
        _session(event),
        len(was),
        len(chosen),
        tuple(sorted(chosen - was)),
        tuple(sorted(dropped)),
        tuple(sorted(was & cited)),
        tuple(sorted(dropped & cited)),
    )


def _session(event: Event) -> str:
    return event.session_id or event.target_id or event.event_id


def _idle(sessions: dict[str, int], helped: Sequence[int], upto: int) -> int:
    """In how many of the sessions a bullet was told since it last helped, up to a position."""
    before = bisect_right(helped, upto)
    since = helped[before - 1] if before else 0
    return sum(position > since for position in sessions.values())


def _helped(ledger: Ledger, upto: int) -> dict[str, list[int]]:
    query = "SELECT name, position FROM tag WHERE playbook_id = ? AND tag = 1 AND active = 1 AND position <= ?"
    found: dict[str, list[int]] = {}
    with ledger.asking() as sql:
        for name, position in sql.run(f"{query} ORDER BY position", upto).fetchall():
            found.setdefault(name, []).append(position)
    return found
