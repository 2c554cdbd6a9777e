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

from reflector.events.memory import AGENT, UNKNOWN, YOU
from reflector.memory.calls import Call, Sitting
from reflector.memory.git_changes import Move

Evidence = Call | Move
#: Attempts to find an order of the steps that leads to the present content.
_MOST_ATTEMPTS = 4_000
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


class Content(NamedTuple):
    """The bytes of a file at one time, None for no file, and whether they are known."""

    bytes: bytes | None
    is_known: bool = True


class Step(NamedTuple):
    """One change of a file: the content that it leads to, its author and its time."""

    after: bytes | None
    author: Author
    time: float


class Question(NamedTuple):
    """A difference between two looks.

    since, until  the times between which the file was changed
    """

    before: Content
    after: bytes | None
    since: float
    until: float


def steps_of(
    question: Question, evidence: Sequence[Evidence], sittings: Sequence[Sitting]
) -> list[Step]:
    """Return the changes that lead from one look to the next, oldest first; the last one has the
    present content.
    """
    newest = sorted(evidence, key=lambda each: each.time)[-_MOST_EVIDENCE:]
    # The clock of git has whole seconds: a move may be before or after a call of its second.
    for late in (0.999, 0.0):
        ordered = sorted(newest, key=lambda each: _time(each, late))
        steps = _Replay(ordered, question).whole()
        if steps is not None:
            return steps
    return _in_part(question, newest, sittings)


def _time(evidence: Evidence, late: float) -> float:
    return evidence.time + (late if isinstance(evidence, Move) else 0.0)


def _author_of(evidence: Evidence) -> Author:
    if isinstance(evidence, Call):
        return Author(AGENT, evidence.agent, evidence.session, evidence.id)
    return Author(evidence.by, commit=evidence.commit, author=evidence.author)


class _State(NamedTuple):
    """A point of a replay: the next evidence, the content and the opaque call after which the
    content is not known.
    """

    place: int
    content: Content
    opaque: Call | None = None


class _Replay:
    """All evidence, replayed from one content to the other."""

    def __init__(self, evidence: Sequence[Evidence], question: Question) -> None:
        self._evidence = evidence
        self._question = question
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
            return [Step(question.after, _author_of(call), call.time)]
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
        if state.opaque is not None and call.content is None:
            is_same = state.opaque.session == call.session
            return [([], skipped._replace(opaque=call))] if is_same else []
        if not state.content.is_known and call.content is None:
            return []
        after = call.apply(state.content.bytes)
        if after is None:
            return [([], skipped)] if call.is_seen_in(state.content.bytes) else []
        following = _State(skipped.place, Content(after))
        is_changed = state.opaque is not None or state.content != following.content
        steps = [Step(after, _author_of(call), call.time)] if is_changed else []
        # A call whose result is there already may have been seen by the last look.
        ways = [(steps, following)]
        if call.content is None and call.is_seen_in(state.content.bytes):
            ways.append(([], skipped))
        return ways

    def _by_move(self, state: _State, move: Move) -> list[tuple[list[Step], _State]]:
        following = _State(state.place + 1, Content(move.after))
        moved = Step(move.after, _author_of(move), move.time)
        is_changed = state.content != following.content or state.opaque is not None
        if state.opaque is not None and not move.forces:
            hidden = Step(move.before, _author_of(state.opaque), state.opaque.time)
            return [([hidden, moved], following)] if move.before != move.after else []
        fits = state.content == Content(move.before)
        return [([moved], following)] if is_changed and (fits or move.forces) else []


def _in_part(
    question: Question, evidence: Sequence[Evidence], sittings: Sequence[Sitting]
) -> list[Step]:
    """Return the certain steps of a difference that is not explained whole, and the rest."""
    calls = [each for each in evidence if isinstance(each, Call)]
    forward = _forward(question, evidence)
    if forward:
        return [*forward, _gap(question, forward[-1].time, question.until, sittings)]
    backward = _backward(question, calls)
    if backward:
        first = backward[0]
        gap = _gap(question, question.since, first.time, sittings)
        return [gap._replace(after=first.before), *(each.step for each in backward)]
    if calls and _shows(question, calls):
        return [Step(question.after, _author_of(calls[-1]), calls[-1].time)]
    return [_gap(question, question.since, question.until, sittings)]


def _forward(question: Question, evidence: Sequence[Evidence]) -> list[Step]:
    """Return the steps of all evidence from the last look on; none if one of them cannot follow."""
    content = question.before
    steps: list[Step] = []
    for each in evidence:
        if isinstance(each, Move):
            fits = content == Content(each.before) and each.before != each.after
            after = each.after if fits else content.bytes
        elif content.is_known or each.content is not None:
            applied = each.apply(content.bytes)
            if applied is None and not each.is_seen_in(content.bytes):
                return []
            after = content.bytes if applied is None else applied
        else:
            return []
        if content != Content(after):
            steps.append(Step(after, _author_of(each), each.time))
            content = Content(after)
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
        steps.append(_Undone(before, call.time, Step(content, _author_of(call), call.time)))
        content = before
    return steps[::-1]


def _shows(question: Question, calls: Sequence[Call]) -> bool:
    """Return whether the present content shows that the calls of one session made it."""
    if len({call.session for call in calls}) > 1:
        return False
    before = question.before.bytes or b""
    return any(
        call.is_opaque or (call.is_seen_in(question.after) and not call.is_seen_in(before))
        for call in calls
    )


def _gap(question: Question, since: float, until: float, sittings: Sequence[Sitting]) -> Step:
    """Return the change that no evidence explains, up to the present content."""
    active = [sitting for sitting in sittings if sitting.is_active(since, until)]
    author = Author(YOU)
    if active:
        newest = max(active, key=lambda sitting: sitting.ended)
        author = Author(UNKNOWN, session=newest.session)
    return Step(question.after, author, until)
