"""The counting policy that is in force, and another one put in force.

Invariant: an adoption's id comes from the policy and the adoption before it, so the same wish, expressed twice, is one
event, and going back to an earlier policy is another.
"""

from __future__ import annotations

from reflector.events import event as ev
from reflector.events.event import Appended, Event, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.counting import DEFAULT, Counting, is_counting


def adoptions(ledger: Ledger, upto: int | None = None) -> list[Event]:
    """Return every adoption of a policy, oldest first."""
    return list(ledger.events(types=[ev.POLICY_ADOPTED], upto=upto))


def policy_before(ledger: Ledger, adoption: Event) -> Counting:
    """Return the policy that was in force before an adoption."""
    earlier = adoptions(ledger, upto=adoption.position - 1)
    found = (earlier[-1].data or {}).get("counting") if earlier else DEFAULT
    return found if is_counting(found) else DEFAULT


def adopt(ledger: Ledger, counting: Counting, *, reason: str | None = None) -> Appended | None:
    """Put a counting policy in force: every counter is counted again under it. None where it is in force already."""
    if ledger.counting() == counting:
        return None
    before = adoptions(ledger)
    data = {"policy": identity("policy", "counting", counting), "counting": counting, "reason": reason}
    event_id = identity(ev.POLICY_ADOPTED, counting, before[-1].event_id if before else "")
    (appended,) = ledger.append([NewEvent(ev.POLICY_ADOPTED, event_id, data, "human")])
    return appended
