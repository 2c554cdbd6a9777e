"""A change before it is made: which recorded sessions would have been told something else, and which counts would move.

Invariant: nothing is written. The counts are those of the fold over the ledger's events and the change's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reflector.curation.bullets import bullet_event
from reflector.curation.changes import preview
from reflector.events import event as ev
from reflector.events.fold import apply, fold
from reflector.ledger.rows import Projected
from reflector.ledger.store import Ledger
from reflector.ledger.tellings import told_since
from reflector.playbook.change import Change
from reflector.reflection.token_estimate import estimate_tokens

Counters = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a change would do.

    change    with the name that a new bullet would get
    lines     the bullets before (`-`) and after (`+`)
    counters  (helpful, harmful) before and after, by the name of each bullet whose counters would move; None where it
              is not in the playbook
    sessions  the recorded sessions of which it is known what they were told
    told      how many of them were told each bullet that it is about
    affected  how many of them would have been told something else
    cited     how many sessions cite one of these bullets, and `judged` on how many there is a verdict
    tokens    how many more tokens a session would take that is told the new text; an estimate
    """

    change: Change
    lines: tuple[str, ...]
    counters: Mapping[str, tuple[Counters | None, Counters | None]]
    sessions: int
    told: Mapping[str, int]
    affected: int
    cited: int
    judged: int
    tokens: int


def rehearse(ledger: Ledger, change: Change, *, first: int = 0) -> Rehearsed:
    """Return what a change would do. Raises BulletRefused for one that cannot be made, LedgerError."""
    (step,) = preview(ledger.rows(), [change], first=first)
    about = set(step.change.about)
    told: dict[str, set[str]] = {name: set() for name in about}
    known: set[str] = set()
    for one in told_since(ledger, 0):
        if one.session is not None:
            known.add(one.session)
            for name in about.intersection(one.bullets):
                told[name].add(one.session)
    cited = {
        str(event.session_id)
        for event in ledger.events(types=[ev.SESSION_RECORDED])
        if about.intersection((event.data or {}).get("cited", ()))
    }
    affected = set[str]().union(*told.values()) if about else known
    lost = sum(estimate_tokens(bullet.line) for bullet in step.before)
    gained = sum(estimate_tokens(bullet.line) for bullet in step.after)
    return Rehearsed(
        step.change,
        tuple(step.lines),
        _counters(ledger, step.change),
        len(known),
        {name: len(sessions) for name, sessions in sorted(told.items())},
        len(affected),
        len(cited),
        _judged(ledger, about),
        gained - lost,
    )


def _counters(ledger: Ledger, change: Change) -> dict[str, tuple[Counters | None, Counters | None]]:
    book = fold(ledger.history())
    before = {bullet.name: (bullet.helpful, bullet.harmful) for bullet in book.bullets()}
    event = bullet_event(change, "rehearsal", actor="rehearsal")
    apply(
        book,
        Projected(book.position + 1, event.event_id, event.type, book.updated_at or "", None, None, None, event.data),
    )
    after = {bullet.name: (bullet.helpful, bullet.harmful) for bullet in book.bullets()}
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return {name: (before.get(name), after.get(name)) for name in names}


def _judged(ledger: Ledger, names: set[str]) -> int:
    if not names:
        return 0
    with ledger.asking() as sql:
        among, values = sql.among("name", sorted(names))
        query = f"SELECT count(DISTINCT session_id) FROM tag WHERE playbook_id = ? AND {among} AND active = 1"  # noqa: S608
        return int(sql.run(query, values).fetchone()[0])
