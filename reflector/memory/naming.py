"""Who changed a watched file between two looks: a tool call, git, you, or unknown.

The calls and the moves of HEAD are replayed in order on the content of the last look. If they lead
to the present content, each step has its author. If they do so only with further changes between
them, these are yours if no session ran meanwhile, and unknown otherwise.

Invariant: a change is an agent's only if a call of its session names the file, and git's only if
the contents are those of its commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from reflector.events.memory import LOOK, UNKNOWN, YOU
from reflector.memory.calls import MAX_ID, Call, Transcript
from reflector.memory.git_changes import Move
from reflector.memory.looks import UNSEEN_CONTENT, Content, Difference
from reflector.memory.new_change import Author, NewChange
from reflector.text.bounds import clean
from reflector.transcripts.reading import session_named_in

Evidence = Call | Move
#: The most attempts to find an order of the steps that leads to the present content.
_MOST_ATTEMPTS = 4_000
#: Transcripts cut the times of their records to milliseconds.
_CLOCK_S = 0.001
#: The longest time in seconds between the recorded time of a git action and the action.
_LATE_S = 0.999
#: The most changes of one file that one comparison replays.
_MOST_EVIDENCE = 300


@lru_cache(maxsize=64)  # a replay calls this often
def _session_of(path: Path) -> str:
    return clean(session_named_in(path), MAX_ID)


def steps_of(
    difference: Difference, evidence: Iterable[Evidence], sessions: Sequence[Transcript]
) -> list[NewChange]:
    """Return the changes that lead from one look to the next, oldest first.

    The last change has the present content. Only commits have the content before them.
    """
    concerning = (each for each in evidence if _may_explain(each, difference))
    newest = sorted(concerning, key=_time)[-_MOST_EVIDENCE:]
    # The clock of git has whole seconds, so a move may be before or after a call of its second.
    late = [
        each._replace(time=each.time + _LATE_S) if isinstance(each, Move) else each
        for each in newest
    ]
    for has_gaps in (False, True):
        for ordered in (sorted(late, key=_time), newest):
            replay = _Replay(difference, ordered, sessions, has_gaps=has_gaps)
            steps = replay.steps_from(_State(0, difference.before))
            if steps:
                return steps
    return [replay.gap(difference.after, difference.until)]


def _may_explain(evidence: Evidence, difference: Difference) -> bool:
    if evidence.file != difference.watched.file:
        return False
    return isinstance(evidence, Move) or evidence.is_after(difference.since)


def _time(evidence: Evidence) -> float:
    return evidence.time


def _step(evidence: Evidence, after: Content) -> NewChange:
    return NewChange(evidence.file, UNSEEN_CONTENT, after, evidence.author, evidence.time, LOOK)


def _moved(move: Move) -> list[NewChange]:
    """Return the steps of a move of HEAD: one for each commit that it brought."""
    commits = [commit._replace(time=move.time) for commit in move.commits]
    return commits or [_step(move, move.after)]


class _State(NamedTuple):
    """A point of a replay: the next evidence and the content; None if the content is unknown.

    opaque  the call after which the content is unknown; None for a gap
    """

    place: int
    content: Content | None
    opaque: Call | None = None


#: Steps, and the state after them.
_Way = tuple[Sequence[NewChange], _State]


class _Replay:
    """A replay of all evidence from one content to the other.

    has_gaps  whether there may be changes between the evidence
    """

    def __init__(
        self,
        difference: Difference,
        evidence: Sequence[Evidence],
        sessions: Sequence[Transcript],
        *,
        has_gaps: bool,
    ) -> None:
        self._difference = difference
        self._evidence = evidence
        self._sessions = sessions
        self._has_gaps = has_gaps
        self._attempts = _MOST_ATTEMPTS
        self._failed: set[_State] = set()
        self._before = _befores(difference.after, evidence)

    def gap(self, after: Content, until: float) -> NewChange:
        """Return the change to a content that no evidence explains."""
        file = self._difference.watched.file
        since = self._difference.since
        active = [session for session in self._sessions if session.is_active(since, until)]
        author = Author(YOU)
        if active:
            newest = max(active, key=lambda session: session.ended)
            author = Author(UNKNOWN, session=_session_of(newest.path))
        return NewChange(file, UNSEEN_CONTENT, after, author, until, LOOK)

    def steps_from(self, state: _State) -> list[NewChange] | None:
        """Return the steps from a state to the present content; None if there are no such steps."""
        if state in self._failed or self._attempts <= 0:
            return None
        self._attempts -= 1
        if state.place == len(self._evidence):
            return self._end(state)
        for steps, following in self._ways(state, self._evidence[state.place]):
            rest = self.steps_from(following)
            if rest is not None:
                return [*steps, *rest]
        self._failed.add(state)
        return None

    def _end(self, state: _State) -> list[NewChange] | None:
        after = self._difference.after
        until = self._difference.until
        call = state.opaque
        if state.content == after:
            return []
        if call is None:
            return [self.gap(after, until)] if self._has_gaps else None
        # The file was not written after the call. The time of a deletion is unknown.
        is_last = not after.digest or until <= call.time + _CLOCK_S
        return [_step(call, after)] if is_last else None

    def _ways(self, state: _State, evidence: Evidence) -> Iterator[_Way]:
        """Yield the ways to continue from a state, the most likely one first."""
        skipped = state._replace(place=state.place + 1)
        if isinstance(evidence, Move):
            yield from self._by_move(state, evidence)
        elif evidence.is_opaque:
            yield [], skipped
            if state.content is not None or state.opaque is not None:
                yield [], _State(skipped.place, None, evidence)
        else:
            yield from self._by_call(state, evidence)
        if self._has_gaps and state.content is not None:
            yield [], state._replace(content=None)

    def _by_move(self, state: _State, move: Move) -> Iterator[_Way]:
        skipped = state._replace(place=state.place + 1)
        following = _State(skipped.place, move.after)
        fits = state.content == move.before
        if not fits:
            yield [], skipped
        if state.content is None and not move.forces and move.before != move.after:
            hidden = self._hidden(state, move.before, move.time)
            yield [hidden, *_moved(move)], following
        elif state.content != move.after and (fits or move.forces):
            yield _moved(move), following
        if fits:
            yield [], skipped

    def _by_call(self, state: _State, call: Call) -> Iterator[_Way]:
        """Yield the ways in which a call continues a state: it changed the content, it is hidden
        after an opaque call of its session, or the last look at the file saw its result.
        """
        skipped = state._replace(place=state.place + 1)
        for hidden, before in self._starts(state, call):
            after = call.apply(before)
            if after is not None:
                changed = [_step(call, after)] if after != before else []
                yield [*hidden, *changed], _State(skipped.place, after)
        by_opaque = state.opaque.author.session if state.opaque is not None else None
        if by_opaque == call.author.session and call.content is None:
            yield [], skipped._replace(opaque=call)
        # If the content already has the result of a call, the last look may have seen it.
        if state.content is not None and call.content is None and call.is_seen_in(state.content):
            yield [], skipped

    def _starts(self, state: _State, call: Call) -> Iterator[tuple[list[NewChange], Content]]:
        """Yield the contents that a call may have changed, and the hidden step to each."""
        if state.content is not None:
            start = call.starts_at(state.content)
            if start == state.content:
                yield [], start
            return
        for before in (call.former, self._before[state.place]):
            if before is not None and before.is_known:
                yield [self._hidden(state, before, call.began)], before
        if call.content is not None:
            yield [], call.former

    def _hidden(self, state: _State, after: Content, until: float) -> NewChange:
        """Return the change by an opaque call or in a gap."""
        if state.opaque is not None:
            return _step(state.opaque, after)
        return self.gap(after, until)


def _befores(after: Content, evidence: Sequence[Evidence]) -> list[Content | None]:
    """Return the content before each evidence, computed back from the content at the end.

    It is None for an evidence before which the content cannot be determined.
    """
    befores: list[Content | None] = []
    content: Content | None = after
    for each in reversed(evidence):
        if isinstance(each, Call) and content is not None:
            content = each.take_back(content)
        befores.append(content)
    return befores[::-1]
