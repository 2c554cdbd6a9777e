"""Wishes of people, recorded when their session is taken in, and the proposals that follow from them.

Invariant: a wish is known by the record that holds it, so a window that is read again, a fork or a second machine adds
nothing. What stands for later sessions is proposed at once; a correction when another session said the same. What a
removed bullet says is proposed as its return. A wish and its proposal are one transaction: whoever is killed before it
hears the wish again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from reflector.curation.changes import BulletRefused
from reflector.curation.proposals import Quote, propose
from reflector.events import event as ev
from reflector.events.bullets import PROMOTED
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import alike
from reflector.reflection.window import is_retracted, keys_of, own_messages
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

from .wishes import Wish, wishes

ACTOR = "rules"


def hear(ledger: Ledger, window_ids: Iterable[str], said: Mapping[str, Sequence[Message] | None]) -> int:
    """Record what people ask for in recorded windows, and propose it; return how many proposals wait because of it.

    The playbook's lock must be held. `said` is what people said in windows that were read before; of the others, a
    transcript that cannot be read says nothing. Raises LedgerError.
    """
    proposed = 0
    for window_id in window_ids:
        window = ledger.event(window_id)
        if window is None or window.type != ev.SESSION_RECORDED or window.data is None or window.data.get("agent_id"):
            continue
        try:
            own, people = frozenset(keys_of(window)), said.get(window_id)
            messages = own_messages(window) if people is None else (one for one in people if one.key in own)
            heard = list(wishes(messages))
        except (OSError, UnknownTranscript):
            continue
        for wish in heard:
            event = _heard(window, wish)
            if ledger.event(event.event_id) is None:
                proposed += _propose(ledger, event)
                ledger.append([event])  # where nothing was proposed
    return proposed


def _heard(window: Event, wish: Wish) -> NewEvent:
    data = {"kind": wish.kind, "form": wish.form, "section": wish.section, "text": wish.text, "quote": wish.quote}
    event_id = identity(ev.WISH_HEARD, wish.key, wish.number)
    return NewEvent(ev.WISH_HEARD, event_id, data, ACTOR, session_id=window.session_id, target_id=window.event_id)


def _propose(ledger: Ledger, event: NewEvent) -> bool:
    data, rows = event.data, ledger.rows()
    if any(row.status == "live" and alike(data["text"], row.bullet) for row in rows):
        return False
    before = [] if data["kind"] == "standing" else _said_before(ledger, event)
    if data["kind"] == "correction" and not before:
        return False
    reason = "a person asked for it" if not before else "people said the same in two sessions"
    change = Change("add", section=data["section"], text=data["text"])
    gone = [row for row in rows if row.status == "removed" and row.reason != PROMOTED]
    if again := next((row for row in gone if alike(data["text"], row.bullet)), None):
        change, reason = Change("restore", again.name), f"{reason} again; it was removed ({again.reason})"
    said: list[Event | NewEvent] = [*before, event]
    evidence = [_quote(one) for one in said]
    with suppress(BulletRefused):  # rejected twice, or merged into a bullet that says more
        made = propose(
            ledger, change, origin="rules", trust="person", reason=reason, evidence=evidence, actor=ACTOR, first=[event]
        )
        return made.state == "waiting"
    return False


def _said_before(ledger: Ledger, event: NewEvent) -> list[Event]:
    """Return the newest wish of another session that says the same, if there is one."""
    text = event.data["text"]
    for one in reversed(list(ledger.events(types=[ev.WISH_HEARD]))):
        if one.data is None or one.session_id in (None, event.session_id):
            continue
        said = Bullet("", one.data["section"], one.data["text"])
        if alike(text, said) and not is_retracted(ledger, one.target_id or ""):
            return [one]
    return []


def _quote(event: Event | NewEvent) -> Quote:
    return Quote((event.data or {})["quote"], "person", event.session_id, event.target_id)
