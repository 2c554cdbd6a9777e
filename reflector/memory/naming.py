"""Who changed a watched file between two looks: a tool call, git, you, or somebody unknown.

The calls and the moves of HEAD are replayed on the content of the last look, in their order. If
that leads to the present content, each step has its author. Else only the steps that are certain
have one, and the rest is yours if no session ran meanwhile, and unknown if one did.

Invariant: a change is an agent's only if a call of its session names the file, and git's only if
the contents are those of its commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reflector.events.memory import AGENT, CHECKOUT, COMMIT, MERGE, UNKNOWN, YOU
from reflector.memory.calls import Call, Content, Sitting
from reflector.memory.git_changes import Move

Evidence = Call | Move
#: Attempts to find an order of the steps that leads to the present content.
_MOST_ATTEMPTS = 4_000
#: Transcripts cut the times of their records to milliseconds.
_CLOCK_S = 0.001
#: How much later than its time git may have done something.
_LATE_S = 0.999
#: Changes of one file in one comparison that are replayed.
_MOST_EVIDENCE = 300


class Author(NamedTuple):
    """The author of a change, as an event has it."""

    by: str
    agent: str = ""
    session: str = ""
    call: str = ""
    commit: str = ""
    author: str = ""


class Step(NamedTuple):
    """One change of a file: the content that it leads to, its author and its time.

    before  the content before a commit, which is that of its parent; else that of the step before
    """

    after: bytes | None
    author: Author
    time: float
    before: Content | None = None


class Question(NamedTuple):
    """A difference between two looks.

    since, until  the times between which the file was changed
    """

    before: Content
    after: bytes | None
    since: float
    until: float

    def is_unchanged_since(self, moment: float) -> bool:
        """Return whether nothing wrote the file after a moment; a deletion leaves no time."""
        return self.after is None or self.until <= moment + _CLOCK_S


def steps_of(
    question: Question, evidence: Sequence[Evidence], sittings: Sequence[Sitting]
) -> list[Step]:
    """Return the changes that lead from one look to the next, oldest first; the last one has the
    present content.
    """
    newest = sorted(evidence, key=_time)[-_MOST_EVIDENCE:]
    # The clock of git has whole seconds: a move may be before or after a call of its second.
    late = [
        each._replace(time=each.time + _LATE_S) if isinstance(each, Move) else each
        for each in newest
    ]
    for sittings_of_gaps in (None, sittings):
        for ordered in (sorted(late, key=_time), newest):
            steps = _Replay(ordered, question, sittings_of_gaps).whole()
            if steps is not None:
                return steps
    return _in_part(question, newest, sittings)


def _time(evidence: Evidence) -> float:
    return evidence.time


def _by_agent(call: Call) -> Author:
    return Author(AGENT, call.agent, call.session, call.id)


def _moved(move: Move) -> list[Step]:
    """Return the steps of a move of HEAD: one for each commit that it brought."""
    if not move.commits:
        return [Step(move.after, Author(CHECKOUT, commit=move.commit), move.time)]
    return [
        Step(
            commit.after,
            Author(
                MERGE if commit.is_merge else COMMIT, commit=commit.commit, author=commit.author
            ),
            move.time,
            Content(commit.before),
        )
        for commit in move.commits
    ]


def _called(
    call: Call, before: Content, question: Question, sittings: Sequence[Sitting] | None
) -> list[Step] | None:
    """Return the steps that a call makes of a content; None if it cannot be applied.

    sittings  to name the change before the call, if its result shows another content before it;
              None if that may not be
    """
    started = call.starts_at(before)
    if not started.is_known and call.content is None:
        return None
    after = call.apply(started.bytes)
    if after is None:
        return None
    if before == Content(after):
        return []  # the last look may have seen it already
    changed = Step(after, _by_agent(call), call.time)
    if started == before:
        return [changed]
    if sittings is None:
        return None
    return [_gap(started.bytes, question.since, call.began, sittings), changed]


class _State(NamedTuple):
    """A point of a replay: the next evidence, the content and the opaque call after which the
    content is not known.
    """

    place: int
    content: Content
    opaque: Call | None = None


class _Replay:
    """All evidence, replayed from one content to the other.

    sittings  to name changes between the calls; None if there may be none
    """

    def __init__(
        self, evidence: Sequence[Evidence], question: Question, sittings: Sequence[Sitting] | None
    ) -> None:
        self._evidence = evidence
        self._question = question
        self._sittings = sittings
        self._attempts = _MOST_ATTEMPTS
        self._failed: set[_State] = set()

    def whole(self) -> list[Step] | None:
        """Return the steps if they explain the whole difference."""
        if not self._evidence:
            return None
        return self._from(_State(0, self._question.before))

    def _from(self, state: _State) -> list[Step] | None:
        if state in self._failed or self._attempts <= 0:
            return None
        self._attempts -= 1
        if state.place == len(self._evidence):
            return self._end(state)
        evidence = self._evidence[state.place]
        for steps, following in self._ways(state, evidence):
            rest = self._from(following)
            if rest is not None:
                return [*steps, *rest]
        self._failed.add(state)
        return None

    def _end(self, state: _State) -> list[Step] | None:
        question = self._question
        if state.opaque is not None:
            call = state.opaque
            is_last = question.is_unchanged_since(call.time)
            return [Step(question.after, _by_agent(call), call.time)] if is_last else None
        return [] if state.content == Content(question.after) else None

    def _ways(self, state: _State, evidence: Evidence) -> list[tuple[list[Step], _State]]:
        """Return the ways on from a state, the most likely one first: the steps of each, and the
        state that it leads to.
        """
        skipped = state._replace(place=state.place + 1)
        if isinstance(evidence, Move):
            moved = self._by_move(state, evidence)
            fits = state.content == Content(evidence.before)
            return [*moved, ([], skipped)] if fits else [([], skipped), *moved]
        if evidence.is_opaque:
            is_same = state.opaque is None or state.opaque.session == evidence.session
            hidden = skipped._replace(opaque=evidence)
            return [([], skipped), ([], hidden)] if is_same else [([], skipped)]
        return self._by_call(state, evidence, skipped)

    def _by_call(
        self, state: _State, call: Call, skipped: _State
    ) -> list[tuple[list[Step], _State]]:
        before = state.content
        hidden: list[Step] = []
        if state.opaque is not None:
            if not call.former.is_known and call.content is None:
                is_same = state.opaque.session == call.session
                return [([], skipped._replace(opaque=call))] if is_same else []
            if call.former.is_known and call.former != before:
                hidden = [Step(call.former.bytes, _by_agent(state.opaque), state.opaque.time)]
            before = call.former
        called = _called(call, before, self._question, self._sittings)
        is_there = state.content.is_known and call.is_seen_in(state.content.bytes)
        if called is None:
            return [([], skipped)] if is_there else []
        steps = [*hidden, *called]
        following = _State(skipped.place, Content(steps[-1].after) if steps else state.content)
        # A call whose result is there already may have been seen by the last look.
        ways = [(steps, following)]
        if call.content is None and is_there:
            ways.append(([], skipped))
        return ways

    def _by_move(self, state: _State, move: Move) -> list[tuple[list[Step], _State]]:
        following = _State(state.place + 1, Content(move.after))
        is_changed = state.content != following.content or state.opaque is not None
        if state.opaque is not None and not move.forces:
            hidden = Step(move.before, _by_agent(state.opaque), state.opaque.time)
            return [([hidden, *_moved(move)], following)] if move.before != move.after else []
        fits = state.content == Content(move.before)
        return [(_moved(move), following)] if is_changed and (fits or move.forces) else []


def _in_part(
    question: Question, evidence: Sequence[Evidence], sittings: Sequence[Sitting]
) -> list[Step]:
    """Return the certain steps of a difference that is not explained whole, and the rest."""
    calls = [each for each in evidence if isinstance(each, Call)]
    after = question.after
    forward = _forward(question, evidence, sittings)
    if forward:
        return [*forward, _gap(after, forward[-1].time, question.until, sittings)]
    backward = _backward(question, calls)
    if backward:
        first = backward[0]
        gap = _gap(first.before, question.since, first.time, sittings)
        return [gap, *(each.step for each in backward)]
    if calls and _shows(question, calls):
        return [Step(after, _by_agent(calls[-1]), calls[-1].time)]
    return [_gap(after, question.since, question.until, sittings)]


def _forward(
    question: Question, evidence: Sequence[Evidence], sittings: Sequence[Sitting]
) -> list[Step]:
    """Return the steps of all evidence from the last look on; none if one of them cannot follow."""
    content = question.before
    steps: list[Step] = []
    for each in evidence:
        following: list[Step] | None = []
        if isinstance(each, Call):
            following = _called(each, content, question, sittings)
            if following is None and not (content.is_known and each.is_seen_in(content.bytes)):
                return []
        elif content == Content(each.before) and each.before != each.after:
            following = _moved(each)
        if following:
            steps += following
            content = Content(following[-1].after)
    return steps


class _Undone(NamedTuple):
    """A step, and the content before it."""

    before: bytes | None
    time: float
    step: Step


def _backward(question: Question, calls: Sequence[Call]) -> list[_Undone]:
    """Return the steps of all calls up to the present content, oldest first; none if one of them
    cannot be taken back.
    """
    content = question.after
    steps: list[_Undone] = []
    for call in reversed(calls):
        before = call.take_back(content)
        if before is None or Content(before) == question.before:
            return []
        steps.append(_Undone(before, call.time, Step(content, _by_agent(call), call.time)))
        content = before
    return steps[::-1]


def _shows(question: Question, calls: Sequence[Call]) -> bool:
    """Return whether the present content shows that the calls of one session made it."""
    is_last = question.is_unchanged_since(calls[-1].time)
    if not is_last or len({call.session for call in calls}) > 1:
        return False
    before = question.before.bytes or b""
    return any(
        call.is_opaque or (call.is_seen_in(question.after) and not call.is_seen_in(before))
        for call in calls
    )


def _gap(after: bytes | None, since: float, until: float, sittings: Sequence[Sitting]) -> Step:
    """Return the change to a content that no evidence explains."""
    active = [sitting for sitting in sittings if sitting.is_active(since, until)]
    author = Author(YOU)
    if active:
        newest = max(active, key=lambda sitting: sitting.ended)
        author = Author(UNKNOWN, session=newest.session)
    return Step(after, author, until)
