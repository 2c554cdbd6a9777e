"""What a session says of a bullet in the end: by a later reading of it, by a person, or by a better
parser.

Invariant: a session says one thing of a bullet, that of the last window for which it was judged.
The same verdict again adds no tag. Another one adds its tag, and a retraction takes the earlier tag
out of the count in the same transaction: nothing is subtracted, and `blame` shows both.

A person has the last word on a citation. Their verdict is a reflection of its own on the window, by
the actor `human`; it takes what others say of the bullet in that session, earlier and later, out of
the count by retractions. Where the verdict is taken back, so are these. What a person retracted
stays retracted, so a later window does not say it again, and what they put back stays in the count.

Where today's parser reads other tags in an answer than those that count, the old reflection is
retracted and the new reading appended. Answers of a backend that rereads are left out: only
together do they say what their session says. So are those about trajectories, each to a question of
its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from reflector.events import event as ev
from reflector.events.event import Appended, Event, NewEvent, identity
from reflector.judges.answers import PARSER_VERSION, Parsed, ParsedTag, fault_of, read_answer
from reflector.judges.evidence import Ground, grounds, unquoted
from reflector.judges.protocol import Answer, Backend
from reflector.judges.registry import REREADING
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import VERDICTS, Verdict
from reflector.reflection import recorder as events_of
from reflector.reflection.checking import fault_of_proposals, learned_in
from reflector.reflection.window import (
    STORY,
    Given,
    Session,
    names_in,
    own_messages,
    tags_of,
)
from reflector.text.secrets import quote
from reflector.transcripts.citations import cited_names
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

Change = Literal["read", "changed", "same", "unreadable"]

_MAX_WHY = 500
_JUDGED = "a person judged it: {}"


def settled(
    ledger: Ledger,
    session: Session,
    backend: Backend,
    tags: Sequence[ParsedTag],
    counting: Collection[str],
    reflection_id: str,
) -> tuple[list[ParsedTag], list[NewEvent], dict[str, str]]:
    """Return what a backend's reading of a window changes: the tags that the session has not said
    before, retractions of those that they overturn, and their verdicts by name.
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
        said = [
            one for one in given if one.name == name and one.window_id in before and name in again
        ]
        if verdict == "neutral":
            is_said = (
                bool(said)
                and said[-1].verdict == verdict
                and said[-1].is_broken == (tag.followed == "no")
            )
        else:
            is_said = any(
                one.verdict == verdict and _is_so(ledger, one) is not False for one in said
            )
        if not is_said:
            added.append(tag)
        for one in said:
            if one.verdict not in (verdict, "neutral") and _is_so(ledger, one):
                reason = f"overturned by a later window of the session, which says {verdict}"
                overturned.append(_retraction(ledger, one, reason, one.tag.actor, reflection_id))
                was[one.name] = one.verdict
    return added, overturned, was


def fault_in(ledger: Ledger, given: Event, parsed: Parsed) -> str:
    """Return why this is no answer to what was asked, "" for an answer. One of a judge that needs
    no evidence, or of an earlier version, only has to be whole.
    """
    data = given.facts
    if "asked" not in data:
        return parsed.fault
    live = {row.name for row in ledger.rows() if row.counts}
    if (fault := fault_of(parsed, data["asked"] or live)) or not data.get("learns"):
        return fault
    return fault_of_proposals(data["answer"], live)


def rests_on(
    ledger: Ledger,
    session: Session,
    given: Event,
    tags: Sequence[ParsedTag],
    trusted: Collection[str],
    held: Sequence[Message] = (),
) -> tuple[Mapping[int, Ground], Mapping[str, Any]]:
    """Return what the tags of an answer rest on, by their index, and what it says that the playbook
    lacks, as its reading keeps it; nothing for one that was not asked for evidence, which its event
    says by what it was `asked`. Raises OSError and UnknownTranscript where the transcript cannot be
    read.
    """
    data = given.facts
    if "asked" not in data:
        return {}, {}
    advice = {row.name: row.text for row in ledger.rows() if row.counts}
    messages = partial(session.shown(frozenset(data["again"])).messages, advice.keys(), held)
    if data.get("unquoted"):
        found = unquoted(tags)
    else:
        found = grounds(tags, messages(), data["asked"], advice.values(), trusted)
    return found, learned_in(data, messages(), advice.values())


def _is_so(ledger: Ledger, given: Given) -> bool | None:
    """Return whether the session says a verdict by now; None where a person decided on it."""
    lines = [ledger.retractions(event.event_id) for event in (given.tag, given.completed)]
    if any(
        event.actor not in (given.tag.actor, "reparse")
        for line in lines
        for event in _decisions(line)
    ):
        return None
    return not any(len(line) % 2 for line in lines)


def _decisions(line: Sequence[Event]) -> Sequence[Event]:
    """Return a line of retractions without those by which a verdict gave way to a person's,
    which was taken back.
    """
    while len(line) > 1 and line[0].actor == ev.HUMAN and line[0].reflection_id is not None:
        line = line[2:]
    return line


@dataclass(frozen=True, slots=True)
class OpenCitation:
    """A citation in a window, and the last verdict on it; null where nobody judged it. `uncounted`
    says why a helpful or harmful one does not count; null for another. An `unquoted` one counts
    without a quote.
    """

    session_id: str | None
    position: int
    recorded_at: str
    name: str
    verdict: str | None
    by: str | None
    reason: str
    uncounted: str | None
    unquoted: bool
    window: Event = field(repr=False)


def citations(
    ledger: Ledger, *, session_id: str | None = None, decided: bool = False, judged: bool = False
) -> list[OpenCitation]:
    """Return what a person may judge, newest first: bullets that count, that a session cites and
    nothing decided; with `decided` also those that others decided, with `judged` those that a
    person did. Raises LedgerError.
    """
    known = {row.name for row in ledger.rows() if row.counts}
    # Of all sessions in a few questions: several for each would take seconds.
    stories: dict[str | None, list[Event]] = defaultdict(list)
    for event in ledger.events(session_id=session_id, types=STORY):
        stories[event.session_id].append(event)
    windows = {event.event_id: event for story in stories.values() for event in story}
    out = ledger.retracted(*windows)
    found: list[OpenCitation] = []
    seen: set[tuple[str | None, str | None, str]] = set()
    for row in reversed(ledger.windows(session_id)):
        # A verdict on a window that still waits for its own reflection would end that wait, for
        # every bullet.
        is_over = row.state in ("completed", "given_up")
        recorded = windows.get(row.event_id) if is_over else None
        if recorded is None or recorded.data is None or recorded.event_id in out:
            continue
        names = [name for name in recorded.data.get("cited", ()) if name in known]
        read = Session.read(ledger, recorded, stories[recorded.session_id]).given if names else ()
        given = [one for one in read if out.isdisjoint((one.tag.event_id, one.completed.event_id))]
        for name in names:
            key = (recorded.session_id, recorded.data.get("agent_id"), name)
            if key in seen:
                continue
            seen.add(key)
            said = [one for one in given if one.name == name]
            if not judged and any(one.tag.actor == ev.HUMAN for one in said):
                continue
            if judged or decided or not any(one.is_decided for one in said):
                last = said[-1] if said else None
                verdict, by, why = (
                    (last.said, last.tag.actor, last.reason) if last else (None, None, "")
                )
                at = recorded.session_id, recorded.position, recorded.recorded_at
                how = (last.uncounted, last.is_unquoted) if last else (None, False)
                found.append(OpenCitation(*at, name, verdict, by, why, *how, recorded))
    return found


def evidence(citation: OpenCitation) -> Iterator[tuple[bool, Message]]:
    """Yield (whether it cites the bullet, message) from the first message of the window that does.
    Raises OSError and UnknownTranscript.
    """
    begun = False
    for message in own_messages(citation.window):
        cites = message.role == "assistant" and citation.name in cited_names(message.text)
        begun = begun or cites
        if begun:
            yield cites, message


def judge(ledger: Ledger, citation: OpenCitation, verdict: Verdict, why: str = "") -> Appended:
    """Record a person's verdict on a citation, take what was said of it in this session before out
    of the count, and return where the verdict stands. The playbook's lock must be held. Raises
    LedgerError.
    """
    window, name = citation.window, citation.name
    given = [one for one in Session.read(ledger, window).given if one.name == name]
    tx = ledger.draw()
    tag = ParsedTag(0, name, verdict, quote(why, _MAX_WHY))
    text = json.dumps(
        {"bullet_tags": [{"name": name, "tag": verdict, "rationale": tag.rationale}]},
        ensure_ascii=False,
    )
    answered = events_of.answered(
        window, ev.HUMAN, "citation_guided", Answer(text, ev.HUMAN), about=(name, tx)
    )
    status = {row.name: row.status for row in ledger.rows()}
    parsed = Parsed("", (tag,), "whole")
    events = events_of.completed(
        window, answered.reflection_id or "", parsed, answered, status, [tag]
    )
    said, by = _JUDGED.format(verdict), answered.reflection_id
    stood = (
        one
        for one in given
        if _counts(ledger, one) and (one.is_decided or one.tag.actor == ev.HUMAN)
    )
    replaced = [_retraction(ledger, one, said, ev.HUMAN, by) for one in stood]
    return ledger.append([answered, *replaced, *events], tx=tx)[-1]


def overruled(ledger: Ledger, session: Session, events: Sequence[NewEvent]) -> list[NewEvent]:
    """Return retractions of those new tags on which a person has had the last word in their
    session. Where it replaced a verdict by the same judge, that one comes back with it, and the new
    tag does not. Of several verdicts of the person, each in the place of the one before, the tag
    comes back with the first.
    """
    last = {
        one.name: one for one in session.given if one.tag.actor == ev.HUMAN and _counts(ledger, one)
    }
    before = {(one.name, one.tag.actor) for one in session.given if one.is_decided}
    found = []
    for event in events:
        name = str(event.data.get("name"))
        if event.type == ev.BULLET_TAGGED and name in last:
            first = _first(ledger, session, last[name])
            by = None if (name, event.actor) in before else first.tag.reflection_id
            said = _JUDGED.format(last[name].verdict)
            found.append(events_of.retraction(event, said, ev.HUMAN, reflection_id=by))
    return found


def _first(ledger: Ledger, session: Session, given: Given) -> Given:
    """Return the first of a person's verdicts of which each took the place of the one before, up
    to one that counts.
    """
    for one in session.given:
        is_earlier = (
            one.name == given.name
            and one.tag.actor == ev.HUMAN
            and one.tag.position < given.tag.position
        )
        line = ledger.retractions(one.tag.event_id) if is_earlier else []
        if len(line) % 2 and given.tag.reflection_id in {event.reflection_id for event in line}:
            return _first(ledger, session, one)
    return given


def _counts(ledger: Ledger, given: Given) -> bool:
    return not ledger.retracted(given.tag.event_id, given.completed.event_id)


def _retraction(
    ledger: Ledger, given: Given, reason: str, actor: str, reflection_id: str | None
) -> NewEvent:
    """Return what takes a verdict out of the count; of one that was retracted and put back, what
    put it back.
    """
    last = [given.tag, *ledger.retractions(given.tag.event_id)][-1].event_id
    return events_of.retraction(given.tag, reason, actor, reflection_id=reflection_id, target=last)


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


def reparse(
    ledger: Ledger,
    *,
    session_id: str | None = None,
    dry_run: bool = False,
    trusted: Collection[str] = ("sure",),
) -> Iterator[Reparsed]:
    """Read the recorded answers of every window, or of one session's, oldest first; `trusted` as
    `Config` has it. Raises LedgerError.
    """
    for window in ledger.windows(session_id):
        recorded = ledger.event(window.event_id)
        if recorded is None or recorded.data is None or recorded.type == ev.TRAJECTORY_RECORDED:
            continue
        story = ledger.targeting(window.event_id)
        # The last answer that is neither redacted nor one of the parts in which older versions
        # asked.
        # `recount` reads those
        story = [one for one in story if one.facts.get("mode") != "checked"]
        answers = [
            event
            for event in story
            if event.type == ev.REFLECTION_ANSWERED and event.actor not in REREADING
        ]
        whole = [
            event for event in answers if event.data is not None and event.data.get("parts", 1) == 1
        ]
        if whole:
            yield _reparse(ledger, recorded, story, whole[-1], trusted, dry_run=dry_run)


def _reparse(
    ledger: Ledger,
    recorded: Event,
    story: list[Event],
    given: Event,
    trusted: Collection[str],
    *,
    dry_run: bool,
) -> Reparsed:
    parsed, window = read_answer(given.facts), (recorded.event_id, recorded.session_id)
    read = (one for one in reversed(story) if one.type == ev.REFLECTION_COMPLETED)
    old = next((one for one in read if not ledger.retractions(one.event_id)), None)
    before = _tags_of(ledger, old) if old is not None else ()
    usable = (
        tag
        for tag in parsed.tags
        if tag.malformed is None and tag.name is not None and tag.tag in VERDICTS
    )
    after = tuple((str(tag.name), str(tag.tag)) for tag in usable)
    # What was read by an earlier version stays read; what was refused is not taken now for less.
    if parsed.failed or (old is None and fault_in(ledger, given, parsed)):
        return Reparsed(*window, "unreadable", before, before)
    if old is not None and before == after:
        return Reparsed(*window, "same", before, after)
    reflection_id = given.reflection_id or ""
    events: list[NewEvent] = []
    if old is not None:
        reflection_id = identity(
            "reflection", recorded.event_id, given.actor, "parser", PARSER_VERSION, old.event_id
        )
        events.append(
            events_of.retraction(old, (f"read again by parser {PARSER_VERSION}"), "reparse")
        )
    status = {row.name: row.status for row in ledger.rows()}
    session = Session.read(ledger, recorded)
    try:
        found, _ = rests_on(ledger, session, given, parsed.tags, trusted)
    except (OSError, UnknownTranscript):
        return Reparsed(*window, "unreadable", before, before)
    events += events_of.completed(
        recorded, reflection_id, parsed, given, status, parsed.tags, found
    )
    if not dry_run:
        ledger.append([*events, *overruled(ledger, session, events)])
    return Reparsed(*window, "read" if old is None else "changed", before, after)


def _tags_of(ledger: Ledger, completed: Event) -> tuple[tuple[str, str], ...]:
    """Return (name, tag) of the tags that were read with a reflection."""
    found: list[Any] = [event.facts for event in tags_of(ledger, completed)]
    usable = (one for one in found if one.get("disposition") not in ("malformed", "unknown_tag"))
    return tuple((one.get("name"), one.get("tag")) for one in usable)
