"""What a new reading of a session changes of what its earlier readings said.

Invariant: a session says one thing of a bullet, that of the last window for which it was judged. The same verdict
again adds no tag. Another one adds its tag, and a retraction takes the earlier tag out of the count in the same
transaction: nothing is subtracted, and `blame` shows both.

What a person retracted stays retracted, so a later window does not say it again. What a person put back stays in the
count beside what later windows say. What only gave way to a person's verdict that was taken back is as it was before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent
from reflector.ledger.store import Ledger
from reflector.playbook.counting import VERDICTS
from reflector.reflection import reflection_events as events_of
from reflector.reflection.answers import ParsedTag
from reflector.reflection.protocol import Backend
from reflector.reflection.window import Given, Session, names_in, retractions


def settled(
    ledger: Ledger,
    session: Session,
    backend: Backend,
    tags: Sequence[ParsedTag],
    counting: Collection[str],
    reflection_id: str,
) -> tuple[list[ParsedTag], list[NewEvent], dict[str, str]]:
    """Return what a backend's reading of a window changes.

    The tags that the session has not said before, retractions of those that they overturn, and their verdicts by name.
    """
    if not backend.rereads:
        return list(tags), [], {}
    given = [one for one in session.given if one.tag.actor == backend.name]
    before = {event.event_id for event in session.earlier}
    read = session.text(backend)
    again = {*read.carried, *read.settled}
    judged = {one.window_id for one in given}
    # A window that failed is tried again when later ones are done, which have read all that it has.
    later = [event for event in session.later if event.event_id in judged]
    overtaken = frozenset(name for event in later for name in names_in(event, "carried"))
    added: list[ParsedTag] = []
    overturned: list[NewEvent] = []
    was: dict[str, str] = {}
    for tag in tags:
        verdict, name = tag.tag or "", tag.name
        if verdict not in VERDICTS or name not in counting:
            added.append(tag)
            continue
        if name in overtaken:
            continue
        said = [one for one in given if one.name == name and one.window_id in before and name in again]
        if verdict == "neutral":
            is_said = bool(said) and said[-1].verdict == verdict
        else:
            is_said = any(one.verdict == verdict and _is_so(ledger, one) is not False for one in said)
        if not is_said:
            added.append(tag)
        others = [one for one in said if one.verdict not in (verdict, "neutral")]
        for one in [one for one in others if _is_so(ledger, one)]:
            reason = f"overturned by a later window of the session, which says {verdict}"
            last = [one.tag, *retractions(ledger, one.tag.event_id)][-1].event_id
            about = {"reflection_id": reflection_id, "target": last}
            overturned.append(events_of.retraction(one.tag, reason, one.tag.actor, **about))
            was[one.name] = one.verdict
    return added, overturned, was


def _is_so(ledger: Ledger, given: Given) -> bool | None:
    """Return whether the session says a verdict by now; None where a person decided on it."""
    lines = [retractions(ledger, event.event_id) for event in (given.tag, given.completed)]
    if any(event.actor not in (given.tag.actor, "reparse") for line in lines for event in _decisions(line)):
        return None
    return not any(len(line) % 2 for line in lines)


def _decisions(line: Sequence[Event]) -> Sequence[Event]:
    """Return a line of retractions without those by which a verdict gave way to a person's, which was taken back."""
    while len(line) > 1 and line[0].actor == ev.HUMAN and line[0].reflection_id is not None:
        line = line[2:]
    return line
