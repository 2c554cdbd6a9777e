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
from reflector.reflection.answers import PARSER_VERSION, Parsed, parse_answer
from reflector.reflection.backends import REREADING

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
        answer = _last_answer(story)
        if answer is not None:
            yield _reparse(ledger, window, recorded, story, answer, dry_run=dry_run)


def _reparse(
    ledger: Ledger, window: WindowRow, recorded: Event, story: list[Event], given: Event, *, dry_run: bool
) -> Reparsed:
    parsed = parse_answer((given.data or {})["answer"])
    old = _standing(ledger, story)
    before = _tags_of(ledger, old) if old is not None else ()
    after = _usable(parsed)
    if parsed.failed:
        return Reparsed(window.event_id, window.session_id, "unreadable", before, before)
    if old is not None and before == after:
        return Reparsed(window.event_id, window.session_id, "same", before, after)
    reflection_id = given.reflection_id or ""
    events: list[NewEvent] = []
    if old is not None:
        reflection_id = identity("reflection", window.event_id, given.actor, "parser", PARSER_VERSION, old.event_id)
        reason = f"read again by parser {PARSER_VERSION}"
        retraction = identity(ev.EVIDENCE_RETRACTED, old.event_id)
        events.append(
            NewEvent(
                ev.EVIDENCE_RETRACTED,
                retraction,
                {"reason": reason},
                "reparse",
                session_id=window.session_id,
                target_id=old.event_id,
            )
        )
    status = {row.name: row.status for row in ledger.rows()}
    events += events_of.completed(recorded, reflection_id, parsed, PARSER_VERSION, given, status, parsed.tags)
    if not dry_run:
        ledger.append(events)
    return Reparsed(window.event_id, window.session_id, "read" if old is None else "changed", before, after)


def _last_answer(story: Sequence[Event]) -> Event | None:
    """Return the last answer that is neither redacted nor one of the parts in which older versions asked."""
    answers = [event for event in story if event.type == ev.REFLECTION_ANSWERED and event.actor not in REREADING]
    return next((one for one in reversed(answers) if one.data is not None and one.data.get("parts", 1) == 1), None)


def _standing(ledger: Ledger, story: Sequence[Event]) -> Event | None:
    """Return the reflection that was read last and was not retracted."""
    read = [event for event in story if event.type == ev.REFLECTION_COMPLETED]
    for event in reversed(read):
        if not any(other.type == ev.EVIDENCE_RETRACTED for other in ledger.targeting(event.event_id)):
            return event
    return None


def _tags_of(ledger: Ledger, completed: Event) -> tuple[tuple[str, str], ...]:
    """Return (name, tag) of the tags that were read with a reflection."""
    found: list[tuple[str, str]] = []
    stream = ledger.events(after=completed.position, types=(ev.BULLET_TAGGED,), session_id=completed.session_id)
    for event in stream:
        if event.reflection_id != completed.reflection_id:
            break
        data: Any = event.data or {}
        if data.get("disposition") not in ("malformed", "unknown_tag"):
            found.append((data.get("name"), data.get("tag")))
    return tuple(found)


def _usable(parsed: Parsed) -> tuple[tuple[str, str], ...]:
    return tuple(
        (tag.name, tag.tag)
        for tag in parsed.tags
        if tag.malformed is None and tag.name is not None and tag.tag in VERDICTS
    )
