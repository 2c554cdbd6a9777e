"""Who changed a file between two looks: a tool call, git, you, or unknown. Before the first look,
only calls are known.

The calls and the moves of HEAD are replayed in order on the content of the last look. If they lead
to the present content, each step has its author. If they do so only with further changes between
them, these are yours if no session ran meanwhile, and unknown otherwise.

Invariant: a change is an agent's only if a call of its session names the file, and git's only if
the contents are those of its commits.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from reflector.attribution.calls import MAX_ID, Call, Transcript, calls_of
from reflector.attribution.commands import LATE_S, with_commands
from reflector.attribution.files import Table
from reflector.attribution.git_changes import Move
from reflector.attribution.steps import UNSEEN_CONTENT, Author, Content, Difference, Step
from reflector.events.memory import UNKNOWN, YOU
from reflector.text.bounds import clean
from reflector.transcripts.reading import session_named_in

Evidence = Call | Move
#: Returns the transcripts that were written since a time, in seconds since the epoch.
FindTranscripts = Callable[[float], Sequence[Transcript]]
#: A transcript may be written this long before the times of its records.
_SLACK_S = 5.0
#: The most attempts to find an order of the steps that leads to the present content.
_MOST_ATTEMPTS = 4_000
#: Transcripts cut the times of their records to milliseconds.
_CLOCK_S = 0.001
#: The clock of a file may be this much late.
_TICK_S = 0.01
#: The most changes of one file that one comparison replays.
_MOST_EVIDENCE = 300
_BY_TIME = attrgetter("time")


@lru_cache(maxsize=64)  # a replay calls this often
def _session_of(path: Path) -> str:
    return clean(session_named_in(path), MAX_ID)


def steps_of_calls(
    transcripts: Iterable[Transcript],
    table: Table,
    known: Iterable[tuple[str, ...]],
    until: float,
) -> Iterator[tuple[Call, Step]]:
    """Yield the tool calls before a moment with their steps, oldest first. Each file is replayed
    from its first whole content.

    A command that names a file may not have changed it. After such a command, and in its step, the
    content of the file is unknown.

    known  the keys of the calls to skip
    """
    contents: dict[str, Content] = {}
    calls = [call for each in transcripts for call in calls_of(each, table)]
    done = set(known)
    for call in sorted(calls, key=_BY_TIME):
        if call.time >= until or call.key in done or not table.is_inside(call.file):
            continue
        done.add(call.key)  # a fork has the calls of its original
        before = call.starts_at(contents.get(call.file, UNSEEN_CONTENT))
        after = call.apply(before) or UNSEEN_CONTENT
        contents[call.file] = after
        yield call, Step(call.file, before, after, call.author, call.time)


def attributed(
    differences: Sequence[Difference],
    find: FindTranscripts,
    table: Table,
    moves: Sequence[Move],
    known: Container[tuple[str, ...]],
) -> Iterator[tuple[Difference, list[Step]]]:
    """Yield each difference, at least one, with its steps, oldest first.

    moves  the moves of HEAD since the last look
    known  the keys of the calls that are not evidence
    """
    sessions: list[Transcript] = []
    evidence: list[Evidence] = [*moves]
    files = [difference.file for difference in differences]
    since = min(difference.since for difference in differences)
    for transcript in find(since - _SLACK_S):
        may_write = transcript.may_write(files, table)
        calls = calls_of(transcript, table) if may_write else []
        evidence += [call for call in calls if call.key not in known]
        if transcript.is_here or calls:
            sessions.append(transcript)
    for difference in differences:
        yield difference, steps_of(difference, evidence, sessions)


def steps_of(
    difference: Difference, evidence: Iterable[Evidence], sessions: Sequence[Transcript]
) -> list[Step]:
    """Return the changes that lead from one look to the next, oldest first.

    The last change has the present content. Only commits have the content before them.
    """
    concerning = (each for each in evidence if _may_explain(each, difference))
    newest = sorted(concerning, key=_BY_TIME)[-_MOST_EVIDENCE:]
    # The clock of git has whole seconds, so a move may be before or after a call of its second.
    late = [
        each._replace(time=each.time + LATE_S) if isinstance(each, Move) else each
        for each in newest
    ]
    for has_gaps in (False, True):
        for ordered in (sorted(late, key=_BY_TIME), newest):
            replay = _Replay(difference, ordered, sessions, has_gaps)
            steps = replay.steps_from(_State(0, difference.before))
            if steps:
                authors = {step.author for step in steps}
                calls = [each for each in newest if isinstance(each, Call)]
                unused = [call for call in calls if call.author not in authors]
                return list(with_commands(steps, unused))
    return [replay.gap(difference.after, difference.until)]


def _may_explain(evidence: Evidence, difference: Difference) -> bool:
    if evidence.file != difference.file:
        return False
    return isinstance(evidence, Move) or evidence.is_after(difference.since)


def _step(evidence: Evidence, after: Content) -> Step:
    return Step(evidence.file, UNSEEN_CONTENT, after, evidence.author, evidence.time)


def _moved(move: Move) -> list[Step]:
    """Return the steps of a move of HEAD: one for each commit that it brought."""
    commits = [commit._replace(time=move.time) for commit in move.commits]
    return commits or [_step(move, move.after)]


class _State(NamedTuple):
    """A point of a replay.

    place    of the next evidence
    content  the last known content
    hidden   the last call since then whose result is not known, with the texts of all such calls of
             its session; None if the content is still known
    """

    place: int
    content: Content
    hidden: Call | None = None

    def skips(self) -> _State:
        """Return the state after an evidence that changed nothing."""
        return self._replace(place=self.place + 1)

    def hides(self, call: Call) -> _State:
        """Return the state after a call whose result is not known."""
        last = self.hidden
        if last is not None and last.author.session == call.author.session:
            call = call._replace(text=f"{last.text}\n{call.text}")
        return _State(self.place + 1, self.content, call)


#: Steps, and the state after them.
_Way = tuple[Sequence[Step], _State]


@dataclass
class _Replay:
    """A replay of all evidence from one content to the other.

    has_gaps  whether there may be changes between the evidence
    """

    difference: Difference
    evidence: Sequence[Evidence]
    sessions: Sequence[Transcript]
    has_gaps: bool
    _attempts: int = _MOST_ATTEMPTS
    _failed: set[_State] = field(default_factory=set)

    @cached_property
    def _befores(self) -> list[Content]:
        """The content before each evidence, computed back from the content at the end."""
        befores: list[Content] = []
        content = self.difference.after
        for each in reversed(self.evidence):
            if isinstance(each, Call):
                content = each.take_back(content) or UNSEEN_CONTENT
            befores.append(content)
        return befores[::-1]

    def gap(self, after: Content, until: float) -> Step:
        """Return the change to a content that no evidence explains."""
        since = self.difference.since
        active = [session for session in self.sessions if session.is_active(since, until)]
        author = Author(YOU)
        if active:
            newest = max(active, key=attrgetter("ended"))
            author = Author(UNKNOWN, session=_session_of(newest.path))
        return Step(self.difference.file, UNSEEN_CONTENT, after, author, until)

    def steps_from(self, state: _State) -> list[Step] | None:
        """Return the steps from a state to the present content; None if there are no such steps."""
        if state in self._failed or self._attempts <= 0:
            return None
        self._attempts -= 1
        if state.place == len(self.evidence):
            return self._end(state)
        for steps, following in self._ways(state):
            rest = self.steps_from(following)
            if rest is not None:
                return [*steps, *rest]
        self._failed.add(state)
        return None

    def _end(self, state: _State) -> list[Step] | None:
        """Return the steps from the state after all evidence to the present content; None if there
        are no such steps.
        """
        until = self.difference.until
        call = state.hidden
        is_last = call is not None and call.began - _TICK_S <= until <= call.time + _CLOCK_S
        return self._steps_to(self.difference.after, state, until, is_last=is_last)

    def _steps_to(
        self, content: Content, state: _State, until: float, *, is_last: bool = False
    ) -> list[Step] | None:
        """Return the steps from a state to a content of the file at a moment; None if there are no
        such steps.

        is_last  whether the file was last written during the hidden call
        """
        call = state.hidden
        if content == state.content:
            return []
        if call is not None and call.explains(state.content, content, is_last=is_last):
            return [_step(call, content)]
        return [self.gap(content, until)] if self.has_gaps else None

    def _ways(self, state: _State) -> Iterator[_Way]:
        """Yield the ways to continue from a state, the most likely one first."""
        evidence = self.evidence[state.place]
        if isinstance(evidence, Move):
            yield from self._by_move(state, evidence)
        elif evidence.is_opaque:
            yield [], state.skips()
            yield [], state.hides(evidence)
        else:
            yield from self._by_call(state, evidence)

    def _by_move(self, state: _State, move: Move) -> Iterator[_Way]:
        """Yield the ways on after a move of HEAD: the file changed with it, or did not. If the
        known content is that before the move, a change is more likely.
        """
        is_known = state.hidden is None
        skips: list[_Way] = [([], state.skips())]
        fits = is_known and state.content == move.before
        if not fits:
            yield from skips
        steps = [] if move.forces else self._steps_to(move.before, state, move.time)
        changes = not is_known or state.content != move.after
        if changes and steps is not None:
            yield [*steps, *_moved(move)], _State(state.place + 1, move.after)
        if fits:
            yield from skips

    def _by_call(self, state: _State, call: Call) -> Iterator[_Way]:
        """Yield the ways on after a call whose result is known. It starts at the known content, or
        at the content that its record or later evidence shows.
        """
        content = state.content
        hidden = state.hidden
        if hidden is None:
            if call.starts_at(content) == content:
                yield from _applied(call, content, state)
            # The last look may have seen the result of the call.
            if call.is_seen_in(content):
                yield [], state.skips()
        for before in (call.former, self._befores[state.place]):
            steps = self._steps_to(before, state, call.began) if before.is_known else None
            if steps is not None:
                yield from _applied(call, before, state, steps)
        if hidden is None or call.former.is_known:
            return
        yield from _applied(call, call.former, state)
        if call.edits and hidden.author.session == call.author.session:
            yield [], state.hides(call)


def _applied(
    call: Call, before: Content, state: _State, steps: Sequence[Step] = ()
) -> Iterator[_Way]:
    """Yield the way by a call after some steps to the content before it."""
    after = call.apply(before)
    if after is not None:
        changed = [_step(call, after)] if after != before else []
        yield [*steps, *changed], _State(state.place + 1, after)
