"""The events of changed bullets, and the checks of their texts.

Invariant: a change has the same event whoever makes it: a person's command, an edit of playbook.json, git, or the
approval of a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.playbook.admissible import hidden_fault, text_fault
from reflector.text.secrets import found

if TYPE_CHECKING:
    from reflector.ledger.store import BulletRow
    from reflector.playbook.bullet import Bullet
    from reflector.playbook.change import Change, Kind

TYPE_OF: Final[dict[Kind, str]] = {
    "add": ev.BULLET_ADDED,
    "revise": ev.BULLET_REVISED,
    "move": ev.BULLET_MOVED,
    "remove": ev.BULLET_REMOVED,
    "merge": ev.BULLET_MERGED,
    "unmerge": ev.BULLET_UNMERGED,
    "restore": ev.BULLET_RESTORED,
    "recount": ev.BULLET_RECOUNTED,
}
#: Why a bullet is removed, where nobody gives a reason.
DELETED: Final = "deleted"


class BulletRefused(ValueError):
    """A change that cannot be made; the text says why and what to do."""


def advice_fault(text: str) -> str | None:
    """Return why a text cannot become advice, None where it can: the rule for every new text."""
    if (what := text_fault(text) or hidden_fault(text)) or not (kinds := found(text)):
        return what
    return f"the text holds what looks like a secret ({', '.join(kinds)}); say where it is kept instead of what it is"


def bullet_event(
    change: Change,
    *place: str | int,
    actor: str,
    origin: str = "cli",
    reason: str | None = None,
    into: str | None = None,
    target: str | None = None,
    more: Mapping[str, object] | None = None,
) -> NewEvent:
    """Return the event of a change that has its name.

    place   what the event's identity is made of, besides its type; a new bullet's is its name, which is given out once
    origin  where a new bullet comes from; `reason` and `into` say why one is removed, and for which one
    target  the event that it follows from: a proposal, or the change that it undoes
    more    what its data says besides
    """
    type_ = TYPE_OF[change.kind]
    data: dict[str, object] = {"name": change.name, **change.values, **(more or {})}
    if change.kind in ("add", "merge"):
        place = (change.name or "",)
        data |= {"section": change.section, "text": change.text}
    if change.kind == "add":
        data |= {"helpful": change.helpful or 0, "harmful": change.harmful or 0, "origin": origin}
    elif change.kind == "merge":
        data["sources"] = list(change.names)
    elif change.kind == "remove":
        data |= {"reason": "".join(filter(str.isprintable, reason or DELETED))[:200], "into": into}
    return NewEvent(type_, identity(type_, *place), data, actor=actor, target_id=target)


def is_taken(row: BulletRow, bullet: Bullet | Change) -> bool:
    """Return whether the ledger's name means another bullet than this one."""
    return row.status != "live" or (row.section, row.text) != (bullet.section, bullet.text)
