"""What a window's reflection reads: the session as far as it went, with the citations that are
judged.

Invariant: where a session was cut changes no verdict of the rules. A window goes on from those
windows of its session whose records its transcript holds. Their records are read again before its
own, and each citation in them as in the whole file. So the last window of a session is judged as
the whole would be (`reflector.reflection.standing` says what becomes of the verdicts before it).

A backend that does not reread is not asked twice: it reads again what its session left neutral, and
every other citation of the earlier records without its brackets. A citation that another backend
decided stays decided for both.

Records that were taken in with another session (a fork's original) cite nothing here, but may be
the evidence; those before the first record of the session are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.events import event as ev
from reflector.events.bullets import DROPPED
from reflector.events.event import Event
from reflector.events.fields import unpack_keys
from reflector.events.sessions import rationale_of
from reflector.ledger.store import Ledger
from reflector.transcripts.citations import CITED, FOLLOWED, citations_of, spread
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript, read_messages

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend

_NO_BRACKETS = str.maketrans("", "", "[]")
#: Dispositions of a tag that says something of a bullet: as a verdict, or as one that was dropped.
_JUDGED = {"counted", "neutral", *DROPPED} - {"not_asked"}
STORY = (ev.SESSION_RECORDED, ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED)


@dataclass(frozen=True, slots=True)
class Given:
    """A verdict that a reflection gave on a window. `tag` is its event.

    is_taken_back  whether it is one of a person, who took it back
    """

    window_id: str
    completed: Event
    tag: Event
    is_taken_back: bool = False

    @property
    def name(self) -> str:
        return str(self.tag.facts.get("name"))

    @property
    def said(self) -> str:
        """The verdict as the judge gave it."""
        return str(self.tag.facts.get("tag"))

    @property
    def uncounted(self) -> str | None:
        """Why the verdict does not count; None where it does, or is neutral."""
        return DROPPED.get(str(self.tag.facts.get("disposition")))

    @property
    def is_unquoted(self) -> bool:
        """Whether the verdict counts without a quote."""
        return self.tag.facts.get("unquoted") is True

    @property
    def verdict(self) -> str:
        """What it is worth; neutral where it was dropped for want of evidence."""
        return self.said if self.tag.facts.get("disposition") == "counted" else "neutral"

    @property
    def is_decided(self) -> bool:
        """Whether the verdict is helpful or harmful."""
        return self.verdict != "neutral"

    @property
    def is_broken(self) -> bool:
        """Whether it says that the agent did not follow the advice."""
        return self.tag.facts.get("followed") == "no"

    @property
    def reason(self) -> str:
        """The rationale of the verdict, "" where there is none or it was redacted."""
        return rationale_of(self.completed.facts, self.tag.facts) or ""

    def is_settled_for(self, backend: str) -> bool:
        """Whether a backend leaves the citation alone: a person judged it, another backend decided
        it, or its reasons were redacted, which must not be found again.
        """
        if self.is_taken_back:
            return False
        is_anothers = self.tag.actor == ev.HUMAN or (self.tag.actor != backend and self.is_decided)
        return is_anothers or self.completed.data is None


@dataclass(frozen=True, slots=True)
class Session:
    """A recorded window among the windows of its session, read from the ledger once.

    windows    every window of the session that was not erased, by id, oldest first
    retracted  the ids of those that are out of the count
    given      what was said of the names that the session (or this subagent of it) cites, oldest
               first
    settled    what each answer settled, by window and backend: verdicts that no later record bears
               on, by name
    """

    recorded: Event
    windows: Mapping[str, Event] = field(default_factory=dict)
    retracted: Set[str] = frozenset()
    given: Sequence[Given] = ()
    settled: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        ledger: Ledger,
        recorded: Event,
        story: Iterable[Event] | None = None,
        is_out: Callable[[Ledger, str], bool] | None = None,
    ) -> Session:
        """Read the session of a recorded window; `story` are its events and `is_out` says which are
        retracted, where these are known already.
        """
        is_out = is_out or is_retracted
        windows: dict[str, Event] = {}
        completed: dict[str, Event] = {}
        given: list[Given] = []
        settled: dict[tuple[str, str], Mapping[str, Sequence[str]]] = {}
        agent_id = recorded.facts.get("agent_id")
        for event in (
            ledger.events(session_id=recorded.session_id, types=STORY) if story is None else story
        ):
            data = event.facts
            if event.type == ev.SESSION_RECORDED and event.data is not None:
                windows[event.event_id] = event
            elif event.type == ev.REFLECTION_ANSWERED:
                if (
                    isinstance(judgement := event.meta.get("judgement"), dict)
                    and "settled" in judgement
                ):
                    settled[event.target_id or "", str(data.get("backend"))] = judgement["settled"]
            elif event.type == ev.REFLECTION_COMPLETED:
                window = windows.get(event.target_id or "")
                if window is not None and window.facts.get("agent_id") == agent_id:
                    completed[event.reflection_id or ""] = event
            elif data.get("disposition") in _JUDGED and event.reflection_id in completed:
                of = completed[event.reflection_id]
                ids = (event.event_id, of.event_id) if event.actor == ev.HUMAN else ()
                given.append(
                    Given(of.target_id or "", of, event, any(is_out(ledger, id) for id in ids))
                )
        retracted = frozenset(event_id for event_id in windows if is_out(ledger, event_id))
        return cls(recorded, windows, retracted, given, settled)

    @property
    def earlier(self) -> list[Event]:
        """The windows that this one goes on from, oldest first, without those that were
        retracted.
        """
        return self._before(self.recorded)

    @property
    def later(self) -> list[Event]:
        """The windows that go on from this one, oldest first."""
        later = [
            event for event in self.windows.values() if event.position > self.recorded.position
        ]
        return [event for event in later if self.recorded in self._before(event)]

    def _before(self, recorded: Event) -> list[Event]:
        window = _part(recorded, "window")
        line = _line(self.windows, window.get("after")) if window.get("mode") == "new" else []
        return [event for event in line if event.event_id not in self.retracted]

    def text(self, backend: Backend) -> SessionText:
        """Return what a backend reads for the window."""
        before = self.earlier
        if not before:
            return SessionText(self.recorded, [])
        carried = frozenset(names_in(self.recorded, "carried"))
        if backend.rereads:
            judged = carried.union(names_in(self.recorded, "cited"))
            names = {
                event.event_id: judged.intersection(names_in(event, "cited")) for event in before
            }
            places = list(names)
            for one in (one for one in self.given if one.is_settled_for(backend.name)):
                for place in (
                    places[: places.index(one.window_id) + 1] if one.window_id in names else ()
                ):
                    names[place] -= {one.name}
            read = SessionText(self.recorded, [(event, names[event.event_id]) for event in before])
            return self._limited(read, backend)
        last = {one.name: one.verdict for one in self.given}
        return self.shown(frozenset(name for name in carried if last.get(name) == "neutral"))

    def shown(self, again: frozenset[str]) -> SessionText:
        """Return what a backend that does not reread is shown; `again` is the earlier windows'
        names that it judges.
        """
        before = self.earlier
        if not before:
            return SessionText(self.recorded, [])
        read = [(event, again) for event in before] if again else []
        return SessionText(
            self.recorded, read, transcript_of(self.recorded).get("since", 0), is_told=True
        )

    def _limited(self, read: SessionText, backend: Backend) -> SessionText:
        """Return a text that begins where the window's own scan began, where an answer settled the
        verdicts on all earlier citations of its names.
        """
        transcript, at = transcript_of(self.recorded), _part(self.recorded, "window").get("at")
        if at is None:
            return read
        found: dict[str, list[str]] = {}
        for name in frozenset[str]().union(*(names for _, names in read.earlier)):
            citing = (
                e
                for e, _ in reversed(read.earlier)
                if name in {*names_in(e, "cited"), *names_in(e, "carried")}
            )
            last = next(citing).event_id
            settled = self.settled.get((last, backend.name))
            if settled is None:
                return read
            found[name] = [*settled.get(name, ())]
            # none of its records is there to be read again
            if name not in names_in(self.recorded, "carried"):
                found[name] += [
                    one.verdict for one in self.given if (one.window_id, one.name) == (last, name)
                ]
        start, passed = transcript.get("since", 0), transcript.get("passed", 0)
        return replace(
            read, start=start, passed=passed, judged=max(0, at - FOLLOWED), settled=found
        )


@dataclass(frozen=True, slots=True)
class SessionText:
    """The earlier windows that are read with a recorded one, oldest first, each with the names
    judged again.

    start    the offset at which the reading begins: no citation before it is followed by any record
             of the window
    passed   how many records of the session come before it
    judged   how many come before the first record whose citations are judged
    settled  the verdicts on citations before that one, by name
    is_told  whether the reader needs a person's first message, which says what the session is about
    """

    recorded: Event
    earlier: Sequence[tuple[Event, frozenset[str]]]
    start: int = 0
    passed: int = 0
    judged: int = 0
    settled: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_told: bool = False

    @property
    def carried(self) -> list[str]:
        """The names that are judged again, in the order of their first citation."""
        again = frozenset[str]().union(*(names for _, names in self.earlier))
        return [name for name in names_in(self.recorded, "carried") if name in again]

    def messages(self, live: Collection[str], held: Sequence[Message] = ()) -> Iterator[Message]:
        """Yield the messages, oldest first, from the file that the window was recorded from, or as
        its scan `held` them. Of the `live` names, those that are not judged again stand without
        brackets in the earlier records. Raises OSError and UnknownTranscript.
        """
        transcript = transcript_of(self.recorded)
        own = frozenset(keys_of(self.recorded))
        again: dict[int, frozenset[str]] = {}
        for event, names in self.earlier:
            again.update(dict.fromkeys(keys_of(event), names))
        begun = bool(self.start and self.earlier)
        path, limit = Path(transcript["path"]), transcript["bytes"]
        if self.is_told and begun:
            yield from islice(
                (one for one in read_messages(path, limit=limit) if one.origin == "human"), 1
            )
        is_held = held and self.start == transcript.get("since", 0)
        for message in held if is_held else read_messages(path, limit=limit, start=self.start):
            if message.key in own:
                begun = True
                yield message
            elif begun or message.key in again:
                begun = True
                yield _without_brackets(message, live, again.get(message.key, frozenset()))


def last_line(
    recorded: Iterable[Event], agent_id: str | None, keys: Set[int] | None = None
) -> list[Event]:
    """Return the last of a session's recorded windows, or of this subagent's, and those that it
    goes on from, oldest first; with `keys`, the last that holds one of these records.
    """
    windows = {event.event_id: event for event in recorded if event.data is not None}
    for event in reversed(windows.values()):
        is_its = event.facts.get("agent_id") == agent_id
        if is_its and (keys is None or not keys.isdisjoint(keys_of(event))):
            return _line(windows, event.event_id)
    return []


def own_messages(recorded: Event) -> Iterator[Message]:
    """Yield the messages of the records that a window took in, oldest first. Raises OSError and
    UnknownTranscript.
    """
    own, transcript = frozenset(keys_of(recorded)), transcript_of(recorded)
    start = transcript.get("since", 0)
    for message in read_messages(Path(transcript["path"]), limit=transcript["bytes"], start=start):
        if message.key in own:
            yield message


def transcript_of(recorded: Event) -> Mapping[str, Any]:
    """Return the path, the size and more of a window's transcript. Raises UnknownTranscript for a
    window that does not name one, as those of an older version.
    """
    transcript = _part(recorded, "transcript")
    if not transcript.keys() >= {"path", "bytes"}:
        raise UnknownTranscript(
            f"the window at position {recorded.position} does not name its transcript"
        )
    return transcript


def names_in(recorded: Event, part: str) -> Sequence[str]:
    """Return the names that a window has as "cited" or "carried"."""
    return recorded.facts.get(part) or ()


def keys_of(recorded: Event) -> Sequence[int]:
    """Return the keys of the records that a window took in."""
    return unpack_keys(_part(recorded, "window").get("keys") or "")


def twins_of(recorded: Event) -> Sequence[int]:
    """Return the keys by which copies of a window's records under new ids are known."""
    return unpack_keys(_part(recorded, "window").get("twins") or "")


def _part(recorded: Event, name: str) -> Mapping[str, Any]:
    """Return an object in a session's window; {} of a trajectory, in which a file may have any
    field of this name.
    """
    return recorded.facts.get(name) or {} if recorded.type == ev.SESSION_RECORDED else {}


def retractions(ledger: Ledger, event_id: str) -> list[Event]:
    """Return the retraction of an event, the retraction of that one, and so on."""
    line: list[Event] = []
    while found := [
        event for event in ledger.targeting(event_id) if event.type == ev.EVIDENCE_RETRACTED
    ]:
        if line and found[0].position <= line[-1].position:
            return line  # a forged ledger may hold a circle
        line.append(found[0])
        event_id = found[0].event_id
    return line


def tags_of(ledger: Ledger, completed: Event) -> list[Event]:
    """Return the tags that were read with a reflection; they follow it."""
    after = ledger.events(
        after=completed.position, types=(ev.BULLET_TAGGED,), session_id=completed.session_id
    )
    return list(takewhile(lambda event: event.reflection_id == completed.reflection_id, after))


def is_retracted(ledger: Ledger, event_id: str) -> bool:
    """Return whether an event is out of the count by a retraction of its own."""
    return len(retractions(ledger, event_id)) % 2 == 1


def _line(windows: Mapping[str, Event], last: str | None) -> list[Event]:
    """Return a window and those that it goes on from, oldest first."""
    left = dict(windows)  # a merged file may come from anybody, and go round in circles
    found: list[Event] = []
    while last is not None and (event := left.pop(last, None)) is not None:
        found.append(event)
        last = _part(event, "window").get("after")
    return found[::-1]


def _without_brackets(message: Message, live: Collection[str], judged: Collection[str]) -> Message:
    """Return the message with the brackets taken off the citations of names that are live and
    not judged in it. These are its `beside`: they still stand beside those that are judged.
    """
    beside = [name for name in citations_of(message) if name in live and name not in judged]

    def kept(match: re.Match[str]) -> str:
        return (
            match[0]
            if match[1] in judged or match[1] not in live
            else match[0].translate(_NO_BRACKETS)
        )

    said, thought = spread(message.text), spread(message.thinking)
    return message._replace(
        text=CITED.sub(kept, said), thinking=CITED.sub(kept, thought), beside=tuple(beside)
    )
