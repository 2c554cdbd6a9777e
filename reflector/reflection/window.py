"""The messages and citations that a window's reflection reads, including those of the windows
before it.

Invariant: the place at which a session was cut does not change a verdict of the rules. A window
continues the windows of its session whose records are in its transcript. Their records are read
again before its own, and each citation in them is read as in the whole file. So the last window of
a session is judged like the whole session. `reflector.reflection.standing` decides on the verdicts
before it.

A backend that does not reread is not asked twice. It reads again the bullets that its session left
neutral, and every other citation of the earlier records without its brackets. If another backend
decided a citation, the decision holds for both.

Records of another session (the original of a fork) contain no citations for this one, but can be
evidence. Records before the first record of the session are not read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector.events.bullets import DROPPED
from reflector.events.event import (
    BULLET_TAGGED,
    HUMAN,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_SKIPPED,
    SESSION_RECORDED,
    Event,
)
from reflector.events.fields import unpack_keys
from reflector.events.sessions import rationale_of
from reflector.ledger.store import Ledger, WindowRow
from reflector.transcripts.citations import CITED, FOLLOWED, citations_of, spread
from reflector.transcripts.heads import read_head
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript, read_messages

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend

_NO_BRACKETS = str.maketrans("", "", "[]")
#: The origins of messages after a citation that may show its result.
_STEPS = frozenset({"model", "human", "tool"})
#: Dispositions of a tag that is a verdict on a bullet, or was one and was dropped.
_JUDGED = {"counted", "neutral", *DROPPED} - {"not_asked"}
#: The types of events from which `Session` is read.
_STORY = (
    SESSION_RECORDED,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_SKIPPED,
    BULLET_TAGGED,
)
#: Why no model is asked about citations yet.
NOTHING_FOLLOWS = "nothing follows the citation yet"


class Judgement(NamedTuple):
    """A verdict that a reflection gave on a window. `tag` is its event.

    is_taken_back  whether it is a user's verdict that the user took back
    """

    window_id: str
    completed: Event
    tag: Event
    is_taken_back: bool = False

    @property
    def name(self) -> str:
        """The bullet's name."""
        return str(self.tag.fact("name"))

    @property
    def raw_verdict(self) -> str:
        """The verdict as the judge gave it."""
        return str(self.tag.fact("tag"))

    @property
    def uncounted(self) -> str | None:
        """The reason why the verdict does not count; None if it does, or is neutral."""
        return DROPPED.get(str(self.tag.fact("disposition")))

    @property
    def is_unquoted(self) -> bool:
        """Whether the verdict counts without a quote."""
        return self.tag.fact("unquoted") is True

    @property
    def verdict(self) -> str:
        """The verdict that counts; neutral if it was dropped for lack of evidence."""
        is_counted = self.tag.fact("disposition") == "counted"
        return self.raw_verdict if is_counted else "neutral"

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is helpful or harmful."""
        return self.verdict != "neutral"

    @property
    def is_broken(self) -> bool:
        """Whether the judge found that the agent did not follow the advice."""
        return bool(self.tag.fact("followed") == "no")

    @property
    def is_of_person(self) -> bool:
        """Whether a user gave the verdict."""
        return self.tag.actor == HUMAN

    @property
    def event_ids(self) -> tuple[str, str]:
        """The ids of the two events that a retraction may take out of the count."""
        return self.tag.event_id, self.completed.event_id

    @property
    def reason(self) -> str:
        """The rationale of the verdict, "" if there is none or it was redacted."""
        return rationale_of(self.completed.facts, self.tag.facts) or ""

    def is_settled_for(self, backend: str) -> bool:
        """Return whether a backend ignores the citation. It does if a user judged it, if another
        backend decided it, or if its reasons were redacted and must not be found again.
        """
        if self.is_taken_back:
            return False
        is_anothers = self.is_of_person or (self.tag.actor != backend and self.is_decided)
        return is_anothers or self.completed.data is None


@dataclass(frozen=True, slots=True)
class Session:
    """A recorded window among the windows of its session, read from the ledger once.

    windows     every window of the session that was not erased, by id, oldest first
    retracted   the ids of those that are out of the count
    judgements  of the names that the session (or this subagent of it) cites, oldest first
    settled     verdicts that no later record can change, by window and backend of the answer that
                settled them, then by name
    left_out    names in the question of an answer that omits them, or that nothing followed
    """

    recorded: Event
    windows: Mapping[str, Event] = field(default_factory=dict)
    retracted: Set[str] = frozenset()
    judgements: Sequence[Judgement] = ()
    settled: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] = field(default_factory=dict)
    left_out: Set[str] = frozenset()

    @classmethod
    def read(cls, ledger: Ledger, recorded: Event) -> Session:
        """Return the session of a recorded window."""
        story = list(ledger.events(session_id=recorded.session_id, types=_STORY))
        retracted = ledger.retracted(*(event.event_id for event in story))
        windows = _windows_in(story)
        return cls(
            recorded,
            windows,
            retracted & windows.keys(),
            list(judgements_in(story, recorded, retracted)),
            _settled_in(story),
            _left_out_in(story, windows, retracted),
        )

    def judgements_of(self, name: str) -> list[Judgement]:
        """Return the judgements of a bullet, oldest first."""
        return [judgement for judgement in self.judgements if judgement.name == name]

    @property
    def earlier(self) -> list[Event]:
        """The windows that this one continues, oldest first, without retracted ones."""
        return self._before(self.recorded)

    @property
    def later(self) -> list[Event]:
        """The windows that continue this one, oldest first."""
        return [
            window
            for window in self.windows.values()
            if window.position > self.recorded.position and self.recorded in self._before(window)
        ]

    def _before(self, recorded: Event) -> list[Event]:
        window = _part(recorded, "window")
        if window.get("mode") != "new":
            return []
        continued = _continued_windows(self.windows, window.get("after"))
        return [event for event in continued if event.event_id not in self.retracted]

    def text(self, backend: Backend) -> SessionText:
        """Return the text that a backend reads for the window."""
        carried = frozenset(window_names(self.recorded, "carried"))
        if not backend.rereads:
            last = dict.fromkeys(self.left_out, "neutral")
            last |= {judgement.name: judgement.verdict for judgement in self.judgements}
            return self.shown(frozenset(name for name in carried if last.get(name) == "neutral"))
        judged = frozenset(names_in_window(self.recorded))
        earlier: list[tuple[Event, frozenset[str]]] = []
        settled: set[str] = set()
        # A judgement settles the citations of its window and of those before it.
        for window in reversed(self.earlier):
            settled |= {
                judgement.name
                for judgement in self.judgements
                if judgement.window_id == window.event_id and judgement.is_settled_for(backend.name)
            }
            cited = judged.intersection(window_names(window, "cited"))
            earlier.insert(0, (window, cited - settled))
        return self._limited(SessionText(self.recorded, earlier), backend)

    def shown(self, again: frozenset[str]) -> SessionText:
        """Return the text for a backend that does not reread; `again` has the earlier windows'
        names that it judges.
        """
        earlier = self.earlier
        if not earlier:
            return SessionText(self.recorded, [])
        reread = [(window, again) for window in earlier] if again else []
        start = transcript_of(self.recorded).get("since", 0)
        return SessionText(self.recorded, reread, start, needs_first_words=True)

    def _limited(self, text: SessionText, backend: Backend) -> SessionText:
        """Return a text that begins at the start of the window's own scan, if an answer settled the
        verdicts on all earlier citations of its names. Otherwise return the same text.
        """
        scanned_to = _part(self.recorded, "window").get("at")
        if not text.earlier or scanned_to is None:
            return text
        settled: dict[str, Sequence[str]] = {}
        for name in _names_again(text.earlier):
            verdicts = self._settled_verdicts(text, name, backend)
            if verdicts is None:
                return text
            settled[name] = verdicts
        transcript = transcript_of(self.recorded)
        return replace(
            text,
            start=transcript.get("since", 0),
            passed=transcript.get("passed", 0),
            judged_from=max(0, scanned_to - FOLLOWED),
            settled=settled,
        )

    def _settled_verdicts(
        self, text: SessionText, name: str, backend: Backend
    ) -> Sequence[str] | None:
        """Return the settled verdicts on a bullet, None if its last answer settled none."""
        citing = [window.event_id for window, _ in text.earlier if name in names_in_window(window)]
        settled = self.settled.get((citing[-1], backend.name))
        if settled is None:
            return None
        verdicts = [*settled.get(name, ())]
        # None of its records is in the new part of the transcript, so none is read again.
        if name not in window_names(self.recorded, "carried"):
            verdicts += [
                judgement.verdict
                for judgement in self.judgements_of(name)
                if judgement.window_id == citing[-1]
            ]
        return verdicts


def _windows_in(story: Iterable[Event]) -> dict[str, Event]:
    """Return the recorded windows that were not erased, by id."""
    return {
        event.event_id: event
        for event in story
        if event.type == SESSION_RECORDED and event.data is not None
    }


def _settled_in(story: Sequence[Event]) -> dict[tuple[str, str], Mapping[str, Sequence[str]]]:
    """Return the verdicts that each answer settled, by window and backend."""
    settled: dict[tuple[str, str], Mapping[str, Sequence[str]]] = {}
    for event in story:
        report = event.meta.get("judgement") if event.type == REFLECTION_ANSWERED else None
        if isinstance(report, dict) and "settled" in report:
            key = (event.target_id or "", str(event.fact("backend")))
            settled[key] = report["settled"]
    return settled


def _left_out_in(
    story: Iterable[Event], windows: Mapping[str, Event], retracted: Set[str]
) -> frozenset[str]:
    """Return the cited names of judged windows that the answer omits, and those that nothing
    followed. The session's next part decides about them, as after a neutral verdict.
    """
    left_out: dict[str, set[str]] = {}
    for event in story:
        reflection_id = event.reflection_id or ""
        window = windows.get(event.target_id or "")
        is_reading = event.type == REFLECTION_COMPLETED and event.event_id not in retracted
        is_early = (  # nothing followed
            event.type == REFLECTION_SKIPPED and event.fact("reason") == NOTHING_FOLLOWS
        )
        if (is_reading or is_early) and window:
            left_out[reflection_id or event.event_id] = set(names_in_window(window))
        elif event.type == BULLET_TAGGED:  # the answer has a verdict on this name
            left_out.get(reflection_id, set()).discard(str(event.fact("name")))
    return frozenset(chain.from_iterable(left_out.values()))


def judgements_in(
    story: Sequence[Event], recorded: Event, retracted: Set[str]
) -> Iterator[Judgement]:
    """Yield the verdicts on the windows of the recorded one's agent, oldest first."""
    windows = _windows_in(story)
    agent_id = recorded.fact("agent_id")
    completions: dict[str | None, Event] = {}
    for event in story:
        if event.type == REFLECTION_COMPLETED:
            window = windows.get(event.target_id or "")
            if window and window.fact("agent_id") == agent_id:
                completions[event.reflection_id or ""] = event
        elif event.type == BULLET_TAGGED and event.fact("disposition") in _JUDGED:
            completed = completions.get(event.reflection_id)
            if completed:
                is_out = event.event_id in retracted or completed.event_id in retracted
                is_taken_back = is_out and event.actor == HUMAN
                yield Judgement(completed.target_id or "", completed, event, is_taken_back)


@dataclass(frozen=True, slots=True)
class SessionText:
    """The earlier windows that are read with a recorded one, oldest first, each with the names that
    are judged again.

    start    the offset at which the reading begins: no citation before it is followed by any record
             of the window
    passed   how many records of the session come before it
    judged_from  how many come before the first record whose citations are judged
    settled  the verdicts on citations before that one, by name
    needs_first_words  whether the reader needs the user's first message, which shows the session's
             subject
    """

    recorded: Event
    earlier: Sequence[tuple[Event, frozenset[str]]]
    start: int = 0
    passed: int = 0
    judged_from: int = 0
    settled: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs_first_words: bool = False

    @property
    def carried(self) -> list[str]:
        """The names that are judged again, in the order of their first citation."""
        again = _names_again(self.earlier)
        return [name for name in window_names(self.recorded, "carried") if name in again]

    def messages(self, live: Collection[str], scanned: Sequence[Message] = ()) -> Iterator[Message]:
        """Yield the messages of the earlier windows and of this one, oldest first.

        In the messages of earlier windows, only names that are judged again keep their brackets, so
        that a judge does not see the other citations.

        live     the names of live bullets; other names keep their brackets
        scanned  the messages of the window's own scan, used instead of the file if the text begins
                 there, too

        Raises:
            OSError: the transcript cannot be read.
            UnknownTranscript: the window does not name a transcript.
        """
        transcript = transcript_of(self.recorded)
        own_keys = frozenset(keys_of(self.recorded))
        judged_again: dict[int, frozenset[str]] = {}
        for window, names in self.earlier:
            judged_again.update(dict.fromkeys(keys_of(window), names))
        # Records before the session's first one are skipped, unless the text begins after them.
        has_begun = bool(self.start and self.earlier)
        path = Path(transcript["path"])
        limit = transcript["bytes"]
        if self.needs_first_words and has_begun:
            every = read_messages(path, limit=limit)
            yield from islice((message for message in every if message.origin == "human"), 1)
        is_scanned = scanned and self.start == transcript.get("since", 0)
        read = scanned if is_scanned else read_messages(path, limit=limit, start=self.start)
        for message in read:
            is_own = message.key in own_keys
            has_begun = has_begun or is_own or message.key in judged_again
            if is_own:
                yield message
            elif has_begun:
                judged = judged_again.get(message.key, frozenset())
                yield _without_brackets(message, live, judged)


def _names_again(earlier: Sequence[tuple[Event, frozenset[str]]]) -> frozenset[str]:
    return frozenset[str]().union(*(names for _, names in earlier))


def is_followed(messages: Iterable[Message], names: Collection[str]) -> bool:
    """Return whether evidence for a judge follows a citation of these names, or is in its message.
    Evidence is a step of the agent, a result, or a user's words.
    """
    has_begun = False
    for message in messages:
        if has_begun and message.origin in _STEPS:
            return True
        has_begun = has_begun or not set(names).isdisjoint(citations_of(message))
        if has_begun and message.calls:
            return True
    return not has_begun


def windows_to_continue(
    recorded: Iterable[Event], agent_id: str | None, keys: Set[int] | None = None
) -> list[Event]:
    """Return the windows that the next window of a session, or of this subagent, continues, oldest
    first: the last recorded one and those before it.

    keys  the records of which the last window must contain one; None for any window
    """
    windows = _windows_in(recorded)
    for window in reversed(windows.values()):
        is_of_agent = window.fact("agent_id") == agent_id
        if is_of_agent and (keys is None or not keys.isdisjoint(keys_of(window))):
            return _continued_windows(windows, window.event_id)
    return []


def own_messages(recorded: Event) -> Iterator[Message]:
    """Yield the messages of a window's own records, oldest first.

    Raises:
        OSError: the transcript cannot be read.
        UnknownTranscript: the window does not name a transcript.
    """
    own_keys = frozenset(keys_of(recorded))
    transcript = transcript_of(recorded)
    start = transcript.get("since", 0)
    for message in read_messages(Path(transcript["path"]), limit=transcript["bytes"], start=start):
        if message.key in own_keys:
            yield message


def transcript_of(recorded: Event) -> Mapping[str, Any]:
    """Return the path, the size and more of a window's transcript.

    Raises:
        UnknownTranscript: the window does not name one, for example one of an older version.
    """
    transcript = _part(recorded, "transcript")
    if not transcript.keys() >= {"path", "bytes"}:
        raise UnknownTranscript(
            f"the session part at position {recorded.position} does not name its transcript"
        )
    return transcript


def folder_of(recorded: Event) -> str:
    """Return the folder in which a window's session worked, as its transcript names it; "" if it
    names none.
    """
    try:
        return read_head(Path(transcript_of(recorded)["path"])).folder
    except (OSError, ValueError, UnknownTranscript):
        return ""


def window_names(recorded: Event, part: str) -> Sequence[str]:
    """Return the names that a window has as "cited" or "carried"."""
    return recorded.fact(part) or ()


def names_in_window(recorded: Event) -> list[str]:
    """Return all names that a window has."""
    return [*window_names(recorded, "cited"), *window_names(recorded, "carried")]


def writer_of(recorded: Event) -> str:
    """Return the agent that wrote a window's session, "" for an unknown one."""
    return str(recorded.fact("agent") or "")


def row_of_window(ledger: Ledger, recorded: Event) -> WindowRow:
    """Return the row of a recorded window, with its state."""
    rows = ledger.windows(recorded.session_id)
    return next(row for row in rows if row.event_id == recorded.event_id)


def keys_of(recorded: Event) -> Sequence[int]:
    """Return the keys of a window's own records."""
    return unpack_keys(_part(recorded, "window").get("keys") or "")


def twins_of(recorded: Event) -> Sequence[int]:
    """Return the keys by which copies of a window's records under new ids are known."""
    return unpack_keys(_part(recorded, "window").get("twins") or "")


def _part(recorded: Event, name: str) -> Mapping[str, Any]:
    """Return an object in a session's window; {} for a trajectory, because a file may have any
    field of this name.
    """
    return recorded.fact(name) or {} if recorded.type == SESSION_RECORDED else {}


def tags_of(ledger: Ledger, completed: Event) -> list[Event]:
    """Return the tags that were read with a reflection; they follow it."""
    following = ledger.events(
        after=completed.position, types=(BULLET_TAGGED,), session_id=completed.session_id
    )
    tags: list[Event] = []
    for tag in following:
        if tag.reflection_id != completed.reflection_id:
            break
        tags.append(tag)
    return tags


def _continued_windows(windows: Mapping[str, Event], last_id: str | None) -> list[Event]:
    """Return a window and those that it continues, oldest first."""
    unvisited = dict(windows)  # a merged file may have any origin, and may contain a circle
    newest_first: list[Event] = []
    while last_id is not None and last_id in unvisited:
        window = unvisited.pop(last_id)
        newest_first.append(window)
        last_id = _part(window, "window").get("after")
    return newest_first[::-1]


def _without_brackets(message: Message, live: Collection[str], judged: Collection[str]) -> Message:
    """Return the message without brackets around the names that are live and not judged in it.

    The message's `beside` has these names, because they are still cited beside the judged ones.
    """
    beside = [name for name in citations_of(message) if name in live and name not in judged]

    def rewritten(citation: re.Match[str]) -> str:
        name = citation[1]
        if name in judged or name not in live:
            return citation[0]
        return citation[0].translate(_NO_BRACKETS)

    text = CITED.sub(rewritten, spread(message.text))
    thinking = CITED.sub(rewritten, spread(message.thinking))
    return message._replace(text=text, thinking=thinking, beside=tuple(beside))
