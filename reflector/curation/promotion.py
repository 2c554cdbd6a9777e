"""Advice that proved itself in one project, given to every project of the user.

Invariant: the text moves and the evidence stays. The new bullet starts without counts, since no session that
got it has judged it yet; its event tells where it comes from and what was counted there. Promoting is safe to
repeat: the user's bullet with this very text is taken for the one that an interrupted promotion added.
"""

from __future__ import annotations

from reflector.curation.bullets import BulletRefused, bullet_event
from reflector.curation.changes import apply
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.change import Change
from reflector.playbook.names import USER_FIRST

#: Why a promoted bullet was removed from its project.
PROMOTED = "promoted"


def promote(row: BulletRow, project: Ledger, users: Ledger, *, home: str, keep: bool = False) -> tuple[str, bool]:
    """Add a project's bullet to the user's playbook and, unless `keep`, retire it in the project, into the new name.

    Returns that name, and whether it is new: the user's playbook may have the very text already.
    `home` names the project in the origin of the new bullet. Both playbooks' locks must be held.
    Raises BulletRefused for a bullet that was removed, LedgerError.
    """
    if row.status != "live":
        raise BulletRefused(f"{row.name} was {row.end}; only a live bullet can be promoted")
    same = next((one.name for one in users.rows() if one.status == "live" and one.text == row.text), None)
    name = same
    if name is None:
        origin = f"promoted from {row.name} of {home} (helpful={row.helpful} harmful={row.harmful})"
        change = Change("add", section=row.section, text=row.text)
        name = apply(users, [change], actor="human", origin=origin, first=USER_FIRST)[0].name
    if not keep:
        place = (row.name, PROMOTED, project.head().position)
        project.append([bullet_event(Change("remove", row.name), *place, actor="human", reason=PROMOTED, into=name)])
    return name, same is None
