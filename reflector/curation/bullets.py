"""Bullets added and changed by people.

Invariant: a name is given out once. Two processes that choose the same new name conflict in the ledger,
and the one that came second chooses again.
"""

from __future__ import annotations

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.errors import Conflict
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.edits import Added
from reflector.playbook.names import SECTIONS, next_name
from reflector.text.secrets import found


class BulletRefused(ValueError):
    """A bullet that cannot be added; the text says why and what to do."""


def add_bullet(
    ledger: Ledger,
    section: str,
    text: str,
    *,
    actor: str = "human",
    origin: str = "cli",
    first: int = 0,
    proposal: str | None = None,
) -> Bullet:
    """Add a bullet under the next free name of a section (a slug), with a number from `first` up.

    `proposal` is the id of the event that proposed it.
    Raises BulletRefused, LedgerError.
    """
    if section not in SECTIONS:
        raise BulletRefused(f"{section!r} is not a section; the sections are {', '.join(SECTIONS)}")
    text = text.strip()
    if fault := text_fault(text) or secret_fault(text):
        raise BulletRefused(f"{fault}; nothing was added")
    tried: list[str] = []
    while True:
        rows = ledger.rows()
        same = next((row for row in rows if row.status == "live" and row.text == text), None)
        if same is not None:
            raise BulletRefused(f"{same.name} says exactly this already")
        bullet = Bullet(next_name(section, [*(row.name for row in rows), *tried], first), section, text)
        try:
            (appended,) = ledger.append([add_event(bullet, origin=origin, actor=actor, proposal=proposal)])
        except Conflict:
            tried.append(bullet.name)  # given out meanwhile, or its identity is that of an event of a forged file
            continue
        if appended.added:
            return bullet


def secret_fault(text: str) -> str | None:
    """Return what looks like a secret in a bullet's text, None if nothing does: every later session would get it."""
    kinds = found(text)
    if not kinds:
        return None
    return f"the text holds what looks like a secret ({', '.join(kinds)}); say where it is kept instead of what it is"


def add_event(bullet: Bullet, *, origin: str, actor: str, proposal: str | None = None) -> NewEvent:
    """Return the event that adds a bullet; its identity is the name, which is given out once."""
    return NewEvent(
        ev.BULLET_ADDED,
        identity(ev.BULLET_ADDED, bullet.name),
        {
            "name": bullet.name,
            "section": bullet.section,
            "text": bullet.text,
            "helpful": bullet.helpful,
            "harmful": bullet.harmful,
            "origin": origin,
        },
        actor=actor,
        target_id=proposal,
    )


def is_taken(row: BulletRow, bullet: Bullet | Added) -> bool:
    """Return whether the ledger's name means another bullet than this one."""
    return row.status != "live" or (row.section, row.text) != (bullet.section, bullet.text)
