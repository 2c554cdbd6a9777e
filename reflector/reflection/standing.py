"""The final verdict of a session on a bullet, after a later reading, a user's decision or a better
parser.

Invariant: a session has one verdict on a bullet, that of the last window for which it was judged.
The same verdict again adds no tag. A different one adds its tag, and a retraction takes the earlier
tag out of the count in the same transaction. Nothing is subtracted, and `blame` shows both.

A user has the last word on a citation. Their verdict is a reflection of its own on the window, by
the actor `human`. Retractions take all other verdicts on the bullet in that session, earlier and
later, out of the count. If the user's verdict is taken back, so are these retractions. If a user
retracted a verdict, it stays retracted, so a later window does not repeat it. If they put it back,
it stays in the count.

If today's parser reads other tags from an answer than those that count, the old reflection is
retracted and the new reading is appended. A reading or a verdict that the user took back stays out
of the count. Two kinds of answers are not parsed again: those of a backend that rereads, because
only together are they the verdict of their session, and those about trajectories, because each
answers a question of its own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from reflector.config import Config
from reflector.events.bullets import DROPPED
from reflector.events.event import (
    BULLET_TAGGED,
    HUMAN,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    SESSION_RECORDED,
    TRAJECTORY_RECORDED,
    Appended,
    Event,
    NewEvent,
    identity,
)
from reflector.judges.answers import PARSER_VERSION, Parsed, ParsedTag, read_answer
from reflector.judges.evidence import Ground, grounds, unquoted
from reflector.judges.measured import counting_words
from reflector.judges.protocol import Answer, Backend
from reflector.judges.registry import is_rereading
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.playbook.bullet import VERDICTS, Verdict
from reflector.reflection import recorder as events_of
from reflector.reflection.checking import MODE, answer_fault, learned_in
from reflector.reflection.window import (
    Judgement,
    Session,
    judgements_in,
    tags_of,
    window_names,
)
from reflector.text.secrets import quote
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

Change = Literal["read", "changed", "same", "unreadable"]
#: The end of a tag that does not count because of a fault.
_UNCOUNTED = ", not counted"
#: The dispositions of a tag whose bullet did not count.
_WITHOUT_BULLET = ("unknown_bullet", "retired_bullet")

_MAX_REASON_CHARACTERS = 500
_JUDGED_BY_PERSON = "your verdict is: {}"
#: The states of a window whose own reflection is over.
_OVER = ("completed", "given_up")
#: The types of events from which the citations of a session are read.
_CITED_TYPES = (SESSION_RECORDED, REFLECTION_COMPLETED, BULLET_TAGGED)


class Settled(NamedTuple):
    """The changes that a reading of a window makes in its session.

    tags         those that the session does not have yet
    retractions  of the session's verdicts that these tags overturn
    overturned   the same verdicts, by bullet
    """

    tags: list[ParsedTag]
    retractions: list[NewEvent]
    overturned: dict[str, str]


def settle_tags(
    ledger: Ledger,
    session: Session,
    backend: Backend,
    tags: Sequence[ParsedTag],
    counting: Collection[str],
    reflection_id: str,
) -> Settled:
    """Return the changes that a backend's reading of a window makes.

    A tag is new, repeats a verdict of the session, or overturns one. `counting` has the names of
    the bullets that count.
    """
    if not backend.rereads:
        return Settled(list(tags), [], {})
    own = [judgement for judgement in session.judgements if judgement.tag.actor == backend.name]
    reread = _reread(session, backend, own)
    judged_later = _judged_later(session, own)
    changes = Settled([], [], {})
    for tag in tags:
        if tag.tag not in VERDICTS or tag.name not in counting:
            changes.tags.append(tag)
            continue
        if tag.name in judged_later:
            continue
        earlier = [judgement for judgement in reread if judgement.name == tag.name]
        if not _is_repeated(ledger, tag, earlier):
            changes.tags.append(tag)
        for judgement in earlier:
            if _is_overturned(ledger, tag, judgement):
                reason = f"replaced by the verdict {tag.tag} on a later part of the session"
                changes.retractions.append(
                    events_of.retraction_of(
                        ledger, judgement.tag, reason, judgement.tag.actor, reflection_id
                    )
                )
                changes.overturned[judgement.name] = judgement.verdict
    return changes


def _reread(session: Session, backend: Backend, own: Sequence[Judgement]) -> list[Judgement]:
    """Return the backend's judgements on earlier windows whose citations it has read again, or
    would have read if they were not settled.
    """
    text = session.text(backend)
    names = {*text.carried, *text.settled}
    earlier = {window.event_id for window in session.earlier}
    of_names = [judgement for judgement in own if judgement.name in names]
    return [judgement for judgement in of_names if judgement.window_id in earlier]


def _judged_later(session: Session, own: Sequence[Judgement]) -> set[str]:
    """Return the names that a later window has judged.

    A failed window can be tried again after a later window was judged. The judge of the later
    window has then also read the records of this one, and has judged the names that the later
    window has as `carried`: names that only earlier windows cite.
    """
    judged = {judgement.window_id for judgement in own}
    judged_later: set[str] = set()
    for window in session.later:
        if window.event_id in judged:
            judged_later.update(window_names(window, "carried"))
    return judged_later


def _is_repeated(ledger: Ledger, tag: ParsedTag, earlier: Sequence[Judgement]) -> bool:
    """Return whether the session already has the verdict of a tag: one that counts or on which a
    user decided. A neutral verdict has to be the last one.
    """
    if tag.tag != "neutral":
        same = [judgement for judgement in earlier if judgement.verdict == tag.tag]
        return any(_is_in_count(ledger, judgement) is not False for judgement in same)
    is_broken = tag.followed == "no"
    last = earlier[-1] if earlier else None
    return last is not None and last.verdict == "neutral" and last.is_broken == is_broken


def _is_overturned(ledger: Ledger, tag: ParsedTag, judgement: Judgement) -> bool:
    """Return whether a tag replaces a judgement. It never replaces one on which a user decided."""
    return judgement.verdict not in (tag.tag, "neutral") and bool(_is_in_count(ledger, judgement))


def _is_in_count(ledger: Ledger, judgement: Judgement) -> bool | None:
    """Return whether a judgement is in the count; None if a user decided on it."""
    lines = [ledger.retractions(event_id) for event_id in judgement.event_ids]
    for line in lines:
        for event in events_of.decisions(line):
            if event.actor not in (judgement.tag.actor, "reparse"):
                return None
    return not any(len(line) % 2 for line in lines)


def fault_in(ledger: Ledger, answer: Event, parsed: Parsed) -> str:
    """Return why a text is not an answer to its question, "" for an answer. If the judge needs no
    evidence, or the answer is of an earlier version, it only has to be complete.
    """
    data = answer.facts
    if "asked" not in data:
        return parsed.fault
    live = ledger.counting_names()
    return answer_fault(answer, parsed, data["asked"] or live, live)


class Grounded(NamedTuple):
    """The evidence of an answer.

    grounds  of its tags, by index
    learned  the gaps of the playbook that the answer names, as fields of its reading
    """

    grounds: Mapping[int, Ground]
    learned: Mapping[str, Any]


def grounded(
    ledger: Ledger,
    session: Session,
    answer: Event,
    tags: Sequence[ParsedTag],
    config: Config,
    scanned: Sequence[Message] = (),
) -> Grounded:
    """Return the evidence of an answer; nothing for a judge that needs no evidence, whose event has
    no field `asked`. `scanned` has the window's messages, if they are known.

    Raises:
        OSError, UnknownTranscript: the transcript cannot be read.
    """
    data = answer.facts
    if "asked" not in data:
        return Grounded({}, {})
    advice = {row.name: row.text for row in ledger.rows() if row.counts}
    text = session.shown(frozenset(data["again"]))
    messages = partial(text.messages, advice.keys(), scanned)
    if data.get("unquoted"):
        tag_grounds = unquoted(tags)
    else:
        trusted = counting_words(config, data)
        tag_grounds = grounds(tags, messages(), data["asked"], advice.values(), trusted)
    return Grounded(tag_grounds, learned_in(data, messages(), advice.values()))


@dataclass(frozen=True, slots=True)
class OpenCitation:
    """A citation in a window, and the last verdict on it; null if it is not judged. `uncounted` is
    the reason why a helpful or harmful verdict does not count; null for any other. An `unquoted`
    verdict counts without a quote.
    """

    session_id: str | None
    position: int
    recorded_at: str
    name: str
    window_id: str = field(repr=False)
    occurred_at: str = field(repr=False)
    verdict: str | None = None
    by: str | None = None
    reason: str = ""
    uncounted: str | None = None
    unquoted: bool = False

    @classmethod
    def of_window(cls, window: Event, name: str, last: Judgement | None) -> OpenCitation:
        """Return a citation in a window; `last` is the last judgement of it that counts."""
        place = (window.session_id, window.position, window.recorded_at)
        citation = cls(*place, name, window.event_id, window.occurred_at)
        if last is None:
            return citation
        return replace(
            citation,
            verdict=last.raw_verdict,
            by=last.tag.actor,
            reason=last.reason,
            uncounted=last.uncounted,
            unquoted=last.is_unquoted,
        )


class _Story(NamedTuple):
    """The windows, readings and tags of a session, oldest first.

    over       the positions of the windows whose own reflection is over
    retracted  the ids of the events that are out of the count
    """

    events: Sequence[Event]
    over: Set[int]
    retracted: Set[str]

    def judged_windows(self) -> Iterator[Event]:
        """Yield the windows whose own reflection is over and that count, newest first.

        A verdict on a window that waits for its own reflection would end that wait, for every
        bullet.
        """
        for event in reversed(self.events):
            is_window = event.type == SESSION_RECORDED and event.data is not None
            if is_window and event.position in self.over and event.event_id not in self.retracted:
                yield event


def citations(
    ledger: Ledger, *, session_id: str | None = None, decided: bool = False, judged: bool = False
) -> Iterator[OpenCitation]:
    """Yield the citations that you may judge, newest first. Each is the last one of a bullet in a
    session. The bullet must count, and have no helpful or harmful verdict in the session.

    decided  include those that others decided
    judged   include also those that a user judged

    The sessions of a page of windows are read at once: a query for each would take seconds, and
    the whole history would need as much memory as the file.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    known = ledger.counting_names()
    for page in ledger.newest_windows() if session_id is None else [ledger.windows(session_id)]:
        of_page = {window.position for window in page}
        found: list[OpenCitation] = []
        for story in _stories(ledger, {window.session_id for window in page}):
            last_citations = _last_citations(story, known, of_page)
            found += _open_citations(last_citations, story, decided=decided, judged=judged)
        yield from sorted(found, key=lambda citation: citation.position, reverse=True)


def _stories(ledger: Ledger, session_ids: Collection[str | None]) -> Iterator[_Story]:
    """Yield the stories of these sessions; all windows without a session are one."""
    by_session: dict[str | None, list[Event]] = defaultdict(list)
    for event in ledger.of_sessions(session_ids, _CITED_TYPES):
        by_session[event.session_id].append(event)
    events = [event for story in by_session.values() for event in story]
    windows = {event.position for event in events if event.type == SESSION_RECORDED}
    over = {row.position for row in ledger.windows_at(windows) if row.state in _OVER}
    retracted = ledger.retracted(*(event.event_id for event in events))
    for story in by_session.values():
        yield _Story(story, over, retracted)


def _last_citations(
    story: _Story, known: Set[str], positions: Collection[int]
) -> Iterator[tuple[Event, list[str]]]:
    """Yield the windows at these positions, newest first, each with the known names that it is the
    last to cite. A subagent has citations of its own.
    """
    seen: dict[str | None, set[str]] = defaultdict(set)
    for window in story.judged_windows():
        of_agent = seen[window.fact("agent_id")]
        unseen = known - of_agent
        names = [name for name in dict.fromkeys(window_names(window, "cited")) if name in unseen]
        of_agent.update(names)
        if names and window.position in positions:
            yield window, names


def _open_citations(
    cited: Iterable[tuple[Event, Sequence[str]]], story: _Story, *, decided: bool, judged: bool
) -> Iterator[OpenCitation]:
    """Yield those of the cited names that you may judge."""
    for window, names in cited:
        judgements = [
            judgement
            for judgement in judgements_in(story.events, window, story.retracted)
            if story.retracted.isdisjoint(judgement.event_ids)
        ]
        for name in names:
            of_name = [judgement for judgement in judgements if judgement.name == name]
            if judged or _is_open(of_name, decided=decided):
                yield OpenCitation.of_window(window, name, of_name[-1] if of_name else None)


def windows_from(ledger: Ledger, citation: OpenCitation) -> list[Event]:
    """Return the window of a citation, and the later ones of its agent in the session.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    [window] = ledger.at([citation.position])
    recorded = ledger.events(
        after=window.position, types=[SESSION_RECORDED], session_id=window.session_id
    )
    later = [event for event in recorded if _goes_on(event, window)]
    return [window, *later]


def _goes_on(event: Event, window: Event) -> bool:
    """Return whether a later window is one of the same agent in the session."""
    is_of_session = event.session_id == window.session_id
    is_same_agent = event.fact("agent_id") == window.fact("agent_id")
    return is_of_session and is_same_agent and event.data is not None


def _is_open(judgements: Sequence[Judgement], *, decided: bool) -> bool:
    if any(judgement.is_of_person for judgement in judgements):
        return False
    return decided or not any(judgement.is_decided for judgement in judgements)


def citation_of(ledger: Ledger, session_id: str, name: str) -> OpenCitation:
    """Return a session's citation of a bullet that you may judge, even if another judge already
    did.

    Raises:
        Mistake: there is none; the text gives the reason.
        LedgerError: the ledger cannot be read.
    """
    known = citations(ledger, session_id=session_id, judged=True)
    citation = next((citation for citation in known if citation.name == name), None)
    if citation is None:
        raise Mistake(_why_not_judged(ledger, session_id, name))
    return citation


def _why_not_judged(ledger: Ledger, session_id: str, name: str) -> str:
    """Return the reason why you cannot judge a citation, with the next step."""
    short = session_id[:8]
    citing = []
    for window in ledger.windows(session_id):
        recorded = ledger.event(window.event_id)
        if recorded and name in window_names(recorded, "cited"):
            citing.append(window)
    if not citing:
        return f"session {short} does not cite {name}; `reflector show {short}` lists its citations"
    if name not in ledger.counting_names():
        return f"verdicts on {name} no longer count; `reflector show {name}` shows the reason"
    if any(window.state not in _OVER for window in citing):
        return (
            f"session {short} is not judged yet; to judge this session, run `reflector reflect "
            f"{short}`. To judge this citation yourself, first run `reflector review give-up "
            f"{short}`"
        )
    return f"session {short} does not count; to see why, run `reflector log {short}`"


def record_verdict(
    ledger: Ledger, citation: OpenCitation, verdict: Verdict, why: str = ""
) -> Appended:
    """Record a user's verdict on a citation, and return its place in the ledger.

    It takes earlier verdicts on the bullet in this session out of the count. The playbook's lock
    must be held.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    [window] = ledger.at([citation.position])
    name = citation.name
    tx = ledger.draw()
    tag = ParsedTag(0, name, verdict, quote(why, _MAX_REASON_CHARACTERS))
    entry = {"name": name, "tag": verdict, "rationale": tag.rationale}
    text = json.dumps({"bullet_tags": [entry]}, ensure_ascii=False)
    answer = events_of.answer_event(
        window, HUMAN, "citation_guided", Answer(text, HUMAN), about=(name, tx)
    )
    reflection_id = answer.reflection_id or ""
    rows = ledger.rows_by_name()
    parsed = Parsed("", (tag,), "whole")
    events = events_of.completion_events(window, reflection_id, parsed, answer, rows, [tag])
    reason = _JUDGED_BY_PERSON.format(verdict)
    replaced = [
        events_of.retraction_of(ledger, judgement.tag, reason, HUMAN, reflection_id)
        for judgement in Session.read(ledger, window).judgements_of(name)
        if (judgement.is_decided or judgement.is_broken or judgement.is_of_person)
        and _counts(ledger, judgement)
    ]
    return ledger.append([answer, *replaced, *events], tx=tx)[-1]


def retractions_by_person(
    ledger: Ledger, session: Session, events: Sequence[NewEvent]
) -> list[NewEvent]:
    """Return retractions of the new tags on which a user has had the last word in their session.

    If the user takes the verdict back, the tag comes back. But if the verdict replaced one by the
    tag's judge, that one comes back instead. Of several verdicts of the user, each of which
    replaced the one before, the tag comes back with the first.
    """
    last = {
        judgement.name: judgement
        for judgement in session.judgements
        if judgement.is_of_person and _counts(ledger, judgement)
    }
    decided = {
        (judgement.name, judgement.tag.actor)
        for judgement in session.judgements
        if judgement.is_decided
    }
    retractions = []
    for event in events:
        name = str(event.data.get("name"))
        if event.type != BULLET_TAGGED or name not in last:
            continue
        reflection_id = None
        if (name, event.actor) not in decided:
            reflection_id = _first_in_line(ledger, session, last[name]).tag.reflection_id
        reason = _JUDGED_BY_PERSON.format(last[name].verdict)
        retractions.append(
            events_of.retraction_event(event, reason, HUMAN, reflection_id=reflection_id)
        )
    return retractions


def _first_in_line(ledger: Ledger, session: Session, last: Judgement) -> Judgement:
    """Return the first of a user's verdicts up to the last, in a line of replaced verdicts."""
    for judgement in session.judgements_of(last.name):
        if not judgement.is_of_person or judgement.tag.position >= last.tag.position:
            continue
        line = ledger.retractions(judgement.tag.event_id)
        is_retracted = len(line) % 2 == 1
        if is_retracted and last.tag.reflection_id in {event.reflection_id for event in line}:
            return _first_in_line(ledger, session, judgement)
    return last


def _counts(ledger: Ledger, judgement: Judgement) -> bool:
    return not ledger.retracted(*judgement.event_ids)


@dataclass(frozen=True, slots=True)
class Reparsed:
    """A window's answer as today's parser reads it.

    reading  read (it could not be read before), changed, same, unreadable
    before   the tags as they count, `after` as they would count: (name, tag), without unusable
             ones. A tag that does not count because of a fault ends in ", not counted"
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
    config: Config | None = None,
) -> Iterator[Reparsed]:
    """Read the recorded answers of every window, or of one session's, oldest first.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    for window in ledger.windows(session_id):
        recorded = ledger.event(window.event_id)
        if recorded is None or recorded.data is None or recorded.type == TRAJECTORY_RECORDED:
            continue
        # `recount` reads the answers of checks. A user's verdict is not an answer of a judge.
        story = [
            event
            for event in ledger.targeting(window.event_id)
            if event.fact("mode") != MODE and event.actor != HUMAN
        ]
        answer = _last_whole_answer(story)
        if answer is None:
            continue
        reading = _last_reading(story)
        if reading is not None and ledger.retracted(reading.event_id):
            if reading.position > answer.position:
                continue  # it was taken back, so it stays out of the count
            reading = None
        yield _reparse(ledger, recorded, reading, answer, config or Config(), dry_run=dry_run)


def _last_whole_answer(story: Sequence[Event]) -> Event | None:
    """Return the last answer that is not redacted, and not one of the parts in which older versions
    asked.
    """
    for event in reversed(story):
        is_parsed_alone = event.type == REFLECTION_ANSWERED and not is_rereading(event.actor)
        if is_parsed_alone and event.data is not None and event.data.get("parts", 1) == 1:
            return event
    return None


def _reparse(
    ledger: Ledger,
    recorded: Event,
    old: Event | None,
    answer: Event,
    config: Config,
    *,
    dry_run: bool,
) -> Reparsed:
    """Read a window's last answer again, and record the new verdicts if they differ.

    old  the reading in force; None without one

    An answer is unreadable if it cannot be parsed, if it was refused, or if its transcript is
    missing and the recorded verdicts differ from the answer.
    """
    parsed = read_answer(answer.facts)
    old_tags: list[Any] = [tag.facts for tag in tags_of(ledger, old)] if old else []
    before = _read_tags(old_tags)
    same = Reparsed(recorded.event_id, recorded.session_id, "same", before, before)
    unreadable = replace(same, reading="unreadable")
    # A reading of an earlier version stays valid. An answer that was refused is still refused.
    if parsed.failed or (old is None and fault_in(ledger, answer, parsed)):
        return unreadable
    session = Session.read(ledger, recorded)
    try:
        ground = grounded(ledger, session, answer, parsed.tags, config)
    except (OSError, UnknownTranscript):  # without the session, only the tags are compared
        old_verdicts = [(name, words.removesuffix(_UNCOUNTED)) for name, words in before]
        is_same = old is not None and old_verdicts == [*_usable_tags(parsed, {})]
        return same if is_same else unreadable
    after = _usable_tags(parsed, _grounds_of_counting(ground.grounds, old_tags))
    if old and before == after:
        return same
    if not dry_run:
        events = _new_reading(ledger, recorded, old, answer, parsed, ground)
        ledger.append([*events, *_retractions_again(ledger, session, old, events)])
    return replace(same, reading="read" if old is None else "changed", after=after)


def _retractions_again(
    ledger: Ledger, session: Session, old: Event | None, events: Sequence[NewEvent]
) -> list[NewEvent]:
    """Return the retractions of new verdicts that a user replaced or took back."""
    if old is None:
        return retractions_by_person(ledger, session, events)
    # The old readings of this answer do not come back if the user takes a verdict back.
    others = [
        judgement
        for judgement in session.judgements
        if (judgement.window_id, judgement.tag.actor) != (old.target_id, old.actor)
    ]
    by_person = retractions_by_person(ledger, replace(session, judgements=others), events)
    again = events_of.taken_back_again(ledger, old, events)
    return [*{event.event_id: event for event in (*by_person, *again)}.values()]


def _grounds_of_counting(
    tag_grounds: Mapping[int, Ground], old_tags: Sequence[Mapping[str, Any]]
) -> Mapping[int, Ground]:
    """Return the grounds without those of tags whose bullet did not count when they were read."""
    without = [tag.get("index") for tag in old_tags if tag.get("disposition") in _WITHOUT_BULLET]
    return {index: ground for index, ground in tag_grounds.items() if index not in without}


def _last_reading(story: Sequence[Event]) -> Event | None:
    return next((event for event in reversed(story) if event.type == REFLECTION_COMPLETED), None)


def _new_reading(
    ledger: Ledger,
    recorded: Event,
    old: Event | None,
    answer: Event,
    parsed: Parsed,
    ground: Grounded,
) -> list[NewEvent]:
    """Return the events of an answer's reading, which replaces the old one if there is one."""
    reflection_id = answer.reflection_id or ""
    events: list[NewEvent] = []
    if old:
        reflection_id = identity(
            "reflection", recorded.event_id, answer.actor, "parser", PARSER_VERSION, old.event_id
        )
        reason = f"reflector read this answer again, with parser {PARSER_VERSION}"
        events.append(events_of.retraction_of(ledger, old, reason, "reparse"))
    rows = ledger.rows_by_name()
    events += events_of.completion_events(
        recorded, reflection_id, parsed, answer, rows, parsed.tags, ground.grounds
    )
    return events


def _usable_tags(parsed: Parsed, grounds: Mapping[int, Ground]) -> tuple[tuple[str, str], ...]:
    """Return (name, tag) of the usable tags of an answer, in the form of `_read_tags`."""
    usable: list[tuple[str, str]] = []
    for tag in parsed.tags:
        if tag.malformed is None and tag.name is not None and tag.tag in VERDICTS:
            ground = grounds.get(tag.index)
            is_dropped = ground is not None and bool(ground.fault)
            usable.append((tag.name, _tag_words(str(tag.tag), is_dropped=is_dropped)))
    return tuple(usable)


def _tag_words(tag: str, *, is_dropped: bool) -> str:
    return f"{tag}{_UNCOUNTED}" if is_dropped and tag != "neutral" else tag


def _read_tags(tags: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    """Return (name, tag) of the usable tags that were read with a reflection."""
    usable = [tag for tag in tags if tag.get("disposition") not in ("malformed", "unknown_tag")]
    return tuple(
        (tag.get("name"), _tag_words(tag.get("tag"), is_dropped=tag.get("disposition") in DROPPED))
        for tag in usable
    )
