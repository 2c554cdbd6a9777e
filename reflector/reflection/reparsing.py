"""Reading old answers with today's parser, without asking anybody again.

Invariant: an answer is never asked for twice to be read twice. Where today's parser reads other tags than those that
count, the old reflection is retracted and the new reading is appended in the same transaction, so a count is never
seen without either. Where nothing differs, nothing is appended.

Answers of a backend that rereads are left out: they say of a session what its tags say only together.
So are those about trajectories, which are insights and verdicts, each to a question of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.ledger.store import Ledger, WindowRow
from reflector.playbook.counting import VERDICTS
from reflector.reflection import reflection_events as events_of
from reflector.reflection.answers import PARSER_VERSION, parse_answer
from reflector.reflection.backends import REREADING
from reflector.reflection.standing import overruled
from reflector.reflection.window import Session, retractions, tags_of

Change = Literal["read", "changed", "same", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reparsed:
    """What today's parser makes of a window's answers.

    reading  read (it could not be read before), changed, same, unreadable
    before   the tags as they count, `after` as they would: (name, tag), unusable ones left out
    """

    window_id: str
    session_id: str | None
    reading: Change
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]


def reparse(ledger: Ledger, *, session_id: str | None = None, dry_run: bool = False) -> Iterator[Reparsed]:
    """Read the recorded answers of every window, or of one session's, oldest first. Raises LedgerError."""
    for window in ledger.windows(session_id):
        recorded = ledger.event(window.event_id)
        if recorded is None or recorded.data is None or recorded.type == ev.TRAJECTORY_RECORDED:
            continue
        story = ledger.targeting(window.event_id)
        # The last answer that is neither redacted nor one of the parts in which older versions asked.
        answers = [event for event in story if event.type == ev.REFLECTION_ANSWERED and event.actor not in REREADING]
        whole = [event for event in answers if event.data is not None and event.data.get("parts", 1) == 1]
        if whole:
            yield _reparse(ledger, window, recorded, story, whole[-1], dry_run=dry_run)


def _reparse(
    ledger: Ledger, window: WindowRow, recorded: Event, story: list[Event], given: Event, *, dry_run: bool
) -> Reparsed:
    parsed = parse_answer((given.data or {})["answer"])
    old = _standing(ledger, story)
    before = _tags_of(ledger, old) if old is not None else ()
    usable = (tag for tag in parsed.tags if tag.malformed is None and tag.name is not None and tag.tag in VERDICTS)
    after = tuple((str(tag.name), str(tag.tag)) for tag in usable)
    if parsed.failed:
        return Reparsed(window.event_id, window.session_id, "unreadable", before, before)
    if old is not None and before == after:
        return Reparsed(window.event_id, window.session_id, "same", before, after)
    reflection_id = given.reflection_id or ""
    events: list[NewEvent] = []
    if old is not None:
        reflection_id = identity("reflection", window.event_id, given.actor, "parser", PARSER_VERSION, old.event_id)
        events.append(events_of.retraction(old, f"read again by parser {PARSER_VERSION}", "reparse"))
    status = {row.name: row.status for row in ledger.rows()}
    events += events_of.completed(recorded, reflection_id, parsed, given, status, parsed.tags)
    if not dry_run:
        ledger.append([*events, *overruled(ledger, Session.read(ledger, recorded), events)])
    return Reparsed(window.event_id, window.session_id, "read" if old is None else "changed", before, after)


def _standing(ledger: Ledger, story: Sequence[Event]) -> Event | None:
    """Return the reflection that was read last and was not retracted."""
    read = [event for event in reversed(story) if event.type == ev.REFLECTION_COMPLETED]
    return next((event for event in read if not retractions(ledger, event.event_id)), None)


def _tags_of(ledger: Ledger, completed: Event) -> tuple[tuple[str, str], ...]:
    """Return (name, tag) of the tags that were read with a reflection."""
    found: list[Any] = [event.data or {} for event in tags_of(ledger, completed)]
    usable = (one for one in found if one.get("disposition") not in ("malformed", "unknown_tag"))
    return tuple((one.get("name"), one.get("tag")) for one in usable)
