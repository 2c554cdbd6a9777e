"""Reflects on recorded windows: gate, backend, answer, tags.

Invariant: a reflection is session.recorded → reflection.answered → reflection.completed with its
tags. Each step is one transaction. After a crash at any step it continues, and does not ask again
for an answer that the ledger has. `reflector.sessions.drain` and the command `reflect` use this
module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from reflector.events.bullets import DROPPED, unquoted_words
from reflector.events.event import (
    REFLECTION_ANSWERED,
    REFLECTION_FAILED,
    TRAJECTORY_RECORDED,
    Event,
)
from reflector.judges.protocol import (
    NO_ANSWER,
    Asks,
    Request,
    judge_named,
)
from reflector.ledger.errors import Conflict
from reflector.ledger.store import WindowRow
from reflector.reflection import recorder as events_of
from reflector.reflection.gate import waiting_for_budget
from reflector.reflection.recorder import (
    REDACTED_ANSWER,
    Failure,
    Recorder,
    Reflected,
    reflection_id_of,
    with_stop_reason,
)
from reflector.reflection.trouble import REDACTED, Trouble, judge_in, trouble_of
from reflector.reflection.window import (
    NOTHING_FOLLOWS,
    Session,
    is_followed,
    names_in_window,
    window_names,
    writer_of,
)
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.judges.answers import Parsed
    from reflector.reflection.standing import Grounded
    from reflector.transcripts.message import Message

#: The failed reflections to try: those whose pause is over, all that have attempts left (but not
#: before the API allows it), or all.
Retry = Literal["due", "left", "all"]


class Runner(Recorder):
    """Finishes open windows of one ledger with one backend.

    scanned  messages of windows as their scans read them, by window
    """

    scanned: Mapping[str, Sequence[Message]] = MappingProxyType({})

    def finish_pending(self, *, retry: Retry = "due") -> list[Reflected]:
        """Finish every open window, oldest first."""
        return [
            self.finish(window)
            if self.is_due(window, retry)
            else Reflected(None, window.event_id, "waiting")
            for window in self.ledger.open_windows()
        ]

    def is_due(self, window: WindowRow, retry: Retry = "due") -> bool:
        """Return whether an open window would be tried now."""
        if retry == "all" or window.state != "failed":
            return True
        if not self.backend.quotes and self._failure_of_another(window):
            return False
        trouble = self.trouble(window)
        if trouble is None:
            return True
        return not trouble.is_over(self.max_attempts) and _pause_is_over(trouble, retry)

    def trouble(self, window: WindowRow) -> Trouble | None:
        """Return this judge's failures on a window, which decide on its next try; None for a window
        that did not fail last.
        """
        if window.state != "failed":
            return None
        story = self.ledger.targeting(window.event_id)
        return trouble_of(story, judge_named(self.backend.name, self.who(window)))

    def _failure_of_another(self, window: WindowRow) -> Event | None:
        """Return the last failure of a window if another judge was asked and gave no answer.

        If you asked a model, you expect its answer, so a judge that reads less does not replace it
        automatically.
        """
        if window.state != "failed":
            return None
        trouble = trouble_of(self.ledger.targeting(window.event_id))
        if trouble is None or trouble.last.fact("backend") == self.backend.name:
            return None
        return trouble.last if trouble.stage in NO_ANSWER else None

    def resting(self, windows: Sequence[WindowRow], retry: Retry = "due") -> set[str]:
        """Return the judges that must wait. A judge that could not answer about one window could
        not answer about the other windows either.
        """
        resting: set[str] = set()
        for window in windows if retry != "all" else ():
            trouble = self.trouble(window)
            if trouble and trouble.outages and not _pause_is_over(trouble, retry):
                resting.add(self.who(window))
        return resting

    def who(self, window: WindowRow) -> str:
        """Return the client that the backend asks about a window; "" if it has only one."""
        if not isinstance(self.backend, Asks):
            return ""
        recorded = self.ledger.event(window.event_id)
        return self.backend.who(writer_of(recorded) if recorded else "")

    def reopened(self) -> list[WindowRow]:
        """Return the windows that waited for a budget that allows them now, oldest first."""
        waiting = waiting_for_budget(self.ledger)
        needs_budget = self.backend.is_model
        if waiting and needs_budget and self.gate.closed(self.ledger):
            return []
        return waiting

    def cited_first(self, windows: Iterable[WindowRow]) -> list[WindowRow]:
        """Return windows in the order in which they are asked about. A budget is spent first on
        those that cite bullets, the oldest first.
        """

        def rank(window: WindowRow) -> tuple[bool, int]:
            recorded = self.ledger.event(window.event_id)
            kinds = ("cited", "carried")  # a forged trajectory may have any value there
            cites = recorded is not None and any(window_names(recorded, kind) for kind in kinds)
            return not cites, window.position

        return sorted(windows, key=rank)

    def finish(self, window: WindowRow, *, forced: bool = False) -> Reflected:
        """Complete the missing steps of one window; a forced one ignores the gate."""
        recorded = self.ledger.event(window.event_id)
        if recorded is None or recorded.data is None:
            reason = "the session's text was erased before a judge read the session"
            return self.fail(window, Failure(REDACTED, reason))
        if recorded.type == TRAJECTORY_RECORDED:
            from reflector.reflection.trajectories import finish_trajectory

            return finish_trajectory(self, window, recorded, forced=forced).reflected
        session = self.session(recorded)
        earlier_failure = self._failure_of_another(window)
        iteration, answer = self._last_answer(window)
        stored = answer or self._ask(window, session, iteration, forced=forced)
        if isinstance(stored, Reflected):
            return stored
        reflected = self._complete(window, session, stored)
        if earlier_failure is None or reflected.outcome != "completed":
            return reflected
        return replace(reflected, instead_of=judge_in(earlier_failure))

    def session(self, recorded: Event) -> Session:
        """Return the session of a recorded window. For a window that cites nothing, the other
        windows are not read.
        """
        cites = names_in_window(recorded)
        return Session.read(self.ledger, recorded) if cites else Session(recorded)

    def request(self, session: Session) -> Request:
        """Return the question about a recorded window, which must not be redacted."""
        recorded = session.recorded
        text = session.text(self.backend)
        rows = {row.name: row for row in self.ledger.rows() if row.counts}
        names = dict.fromkeys([*text.carried, *window_names(recorded, "cited")])
        cited = tuple(name for name in names if name in rows)
        # A rule in a file is not cited by name, so only a question about all rules includes it.
        statuses = ("live",) if cited else ("live", "watched")
        shown = [row for row in rows.values() if row.status in statuses or row.name in cited]
        scanned = self.scanned.get(recorded.event_id, ())
        return Request(
            session_id=recorded.session_id or "",
            playbook=tuple(row.bullet for row in shown),
            cited=cited,
            again=tuple(text.carried),
            messages=partial(text.messages, rows.keys(), scanned),
            agent=writer_of(recorded),
            passed=text.passed,
            judged_from=text.judged_from,
            settled=text.settled,
        )

    def _last_answer(self, window: WindowRow) -> tuple[int, Event | None]:
        """Return the last iteration and its answer, or the next iteration and None if the judge has
        to be asked. The judge is asked

        - if it has not answered, or the window is pending
        - again, if this parser refused the answer or the model declined to answer
        - again, if an earlier version did not finish to ask about the parts of the window.
        """
        if window.state == "pending":
            return 1, None
        reflection_id = reflection_id_of(window.event_id, self.backend.name)
        story = self.ledger.targeting(window.event_id)
        story = [event for event in story if event.reflection_id == reflection_id]
        answers = [event for event in story if event.type == REFLECTION_ANSWERED]
        if not answers:
            return 1, None
        answer = answers[-1]
        iteration = int(answer.fact("iteration", 1))
        since = story[story.index(answer) + 1 :]
        asks_again = self.backend.quotes and any(_asks_anew(event) for event in since)
        # An earlier version asked about a large window in parts. If it did not finish them, the
        # whole window is asked about again.
        if asks_again or answer.fact("parts", 1) > 1:
            return iteration + 1, None
        return iteration, answer

    def _ask(
        self, window: WindowRow, session: Session, iteration: int, *, forced: bool
    ) -> Event | Reflected:
        """Return the backend's answer as appended; if there is none, how the reflection ended."""
        recorded = session.recorded
        request = self.request(session)
        is_quoting = self.backend.quotes
        learns = self.gate.config.curate and is_quoting
        allowance = self.gate.check(
            self.ledger,
            recorded,
            cited=bool(request.cited),
            # An empty playbook can be asked about, so that its first bullet can be proposed.
            live=learns or bool(request.playbook),
            is_model=self.backend.is_model,
            forced=forced,
        )
        if isinstance(allowance, str):
            return self.skip(window, recorded, allowance)
        is_by_hand = forced or self.gate.config.layer("backend") == "flag"
        if self.backend.is_model and not is_by_hand and _is_too_early(request):
            return self.skip(window, recorded, NOTHING_FOLLOWS)
        reserve = partial(self.gate.reserve, self.ledger, forced=forced)
        request = replace(request, allowance=allowance, reserve=reserve, learns=learns)
        question: dict[str, Any] = {}
        if is_quoting:
            question |= {"asked": [*request.cited], "again": [*request.again]}
        if learns:
            question["learns"] = True
        event_of = partial(
            events_of.answer_event,
            recorded,
            self.backend.name,
            request.mode,
            place=(iteration, 1),
            question=question,
        )
        ask = partial(self.backend.answer, request)
        return self.ask_and_store(window, recorded, ask, event_of)

    def _complete(self, window: WindowRow, session: Session, answer: Event) -> Reflected:
        """Read an answer, append its reading, and return how the reflection ended."""
        if answer.data is None:
            return self.fail(window, Failure("answer", REDACTED_ANSWER))
        # Most windows cite nothing, so they have no answer and do without these imports.
        from reflector.judges.answers import read_answer
        from reflector.reflection.standing import fault_in, grounded

        parsed = read_answer(answer.data)
        if fault := fault_in(self.ledger, answer, parsed):
            return self.fail(window, _no_answer(fault, answer))
        scanned = self.scanned.get(session.recorded.event_id, ())
        config = self.gate.config
        try:
            ground = grounded(self.ledger, session, answer, parsed.tags, config, scanned)
        except (OSError, UnknownTranscript) as error:
            return self.fail(window, Failure("transcript", str(error)))
        try:
            reading = self._append_reading(session, answer, parsed, ground)
        except Conflict:  # you retracted one of these tags a moment ago
            session = self.session(session.recorded)
            reading = self._append_reading(session, answer, parsed, ground)
        return _reflected(window, session.recorded, reading)

    def _append_reading(
        self, session: Session, answer: Event, parsed: Parsed, ground: Grounded
    ) -> _Reading:
        """Append the reading of an answer in one transaction, and return it.

        Raises:
            Conflict: one of the tags was retracted meanwhile.
        """
        from reflector.reflection.standing import retractions_by_person, settle_tags

        rows = self.ledger.rows_by_name()
        counting = frozenset(name for name, row in rows.items() if row.counts)
        reflection_id = answer.reflection_id or ""
        settled = settle_tags(
            self.ledger, session, self.backend, parsed.tags, counting, reflection_id
        )
        completion, *tag_events = events_of.completion_events(
            session.recorded,
            reflection_id,
            parsed,
            answer,
            rows,
            settled.tags,
            ground.grounds,
            ground.learned,
        )
        by_person = retractions_by_person(self.ledger, session, tag_events)
        self.ledger.append([*settled.retractions, completion, *tag_events, *by_person])
        return _Reading([event.data for event in tag_events], settled.overturned, counting)


class _Reading(NamedTuple):
    """The reading of an answer.

    tags        the data of the events of its tags
    overturned  the session's earlier verdicts that it took out of the count, by bullet
    counting    the bullets that count
    """

    tags: Sequence[Mapping[str, Any]]
    overturned: Mapping[str, str]
    counting: Collection[str]


def _reflected(window: WindowRow, recorded: Event, reading: _Reading) -> Reflected:
    """Return a completed reflection, with its verdicts in words."""
    decided = {tag["name"] for tag in reading.tags if tag["disposition"] == "counted"}
    verdicts: list[str] = []
    for tag in reading.tags:
        name = tag["name"]
        earlier = reading.overturned.get(name)
        if tag["disposition"] == "counted" or earlier is not None:
            change = f" (was {earlier})" if earlier is not None else ""
            verdicts.append(f"{name} {tag['tag']}{unquoted_words(tag)}{change}")
    cited = window_names(recorded, "cited")
    undecided = [name for name in cited if name in reading.counting and name not in decided]
    return Reflected(
        window.session_id,
        window.event_id,
        "completed",
        ", ".join(verdicts),
        dropped=tuple(_dropped(reading.tags)),
        undecided=tuple(undecided),
    )


def _dropped(tags: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the helpful and harmful verdicts that do not count, each with the reason."""
    for tag in tags:
        reason = DROPPED.get(tag["disposition"])
        if reason and tag["tag"] in ("helpful", "harmful"):
            yield f"{tag['name']} {tag['tag']}, not counted: {reason}"


def _no_answer(fault: str, answer: Event) -> Failure:
    """Return the failure of a text that is not an answer."""
    from reflector.judges.answers import PARSER_VERSION

    stop_reason = str(answer.meta.get("stop_reason") or "")
    if stop_reason == "refusal":
        # A model that declined would decline the same question again, so only you can repeat it.
        return Failure("answer", "the model declined to answer", final=True)
    message = with_stop_reason(fault, answer)
    if not str(answer.fact("answer", "")).strip():
        message = f"the answer is empty (stop_reason {stop_reason or 'unknown'})"
    return Failure("parse", message, parser=PARSER_VERSION)


def _pause_is_over(trouble: Trouble, retry: Retry) -> bool:
    end = trouble.not_before if retry == "left" else trouble.next_try
    return datetime.now(UTC) >= end


def _is_too_early(request: Request) -> bool:
    """Return whether nothing follows the citations of a question yet; False if the transcript
    cannot be read, which the question reports.
    """
    try:
        return bool(request.cited) and not is_followed(request.messages(), request.cited)
    except (OSError, UnknownTranscript):
        return False


def _asks_anew(event: Event) -> bool:
    """Return whether the model is asked again about the whole window after this event. It is asked
    again if this parser refused the answer, because it would refuse it again, or if the model
    declined to answer.
    """
    from reflector.judges.answers import PARSER_VERSION

    if event.type != REFLECTION_FAILED:
        return False
    is_declined = event.fact("stage") == "answer" and bool(event.fact("final"))
    return event.fact("parser") == PARSER_VERSION or is_declined
