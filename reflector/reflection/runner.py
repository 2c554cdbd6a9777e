"""Reflecting on recorded windows: gate, backend, answer, tags.

Invariant: a reflection goes session.recorded → reflection.answered → reflection.completed with its
tags, each step one transaction, and goes on after a crash at any of them without asking again for
what was answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from reflector.events import event as ev
from reflector.events.bullets import DROPPED, unquoted_words
from reflector.events.event import Event
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
from reflector.reflection.recorder import Recorder, Reflected, reflection_id_of
from reflector.reflection.trouble import REDACTED, Trouble, judge_in, trouble_of
from reflector.reflection.window import Session, names_in
from reflector.transcripts.reading import UnknownTranscript

if TYPE_CHECKING:
    from reflector.transcripts.message import Message

#: Which failed reflections are tried: those whose pause is over, all that have attempts left (but
#: not before the API wants to be asked again), or simply all.
Retry = Literal["due", "left", "all"]


class Runner(Recorder):
    """Finishes open windows of one ledger with one backend.

    held  messages of windows as their scans read them, by window
    """

    held: Mapping[str, Sequence[Message]] = MappingProxyType({})

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
        if not self.backend.quotes and self._of_another(window) is not None:
            return False
        trouble = self.trouble(window)
        return trouble is None or (
            not trouble.is_over(self.max_attempts) and _pause_is_over(trouble, retry)
        )

    def trouble(self, window: WindowRow) -> Trouble | None:
        """Return what this judge's failures on a window say about its next try; None for one
        that did not fail last.
        """
        if window.state != "failed":
            return None
        return trouble_of(
            self.ledger.targeting(window.event_id), judge_named(self.backend.name, self.who(window))
        )

    def _of_another(self, window: WindowRow) -> Event | None:
        """Return the last failure of a window where another judge was asked and gave no answer:
        whoever asked a model is owed its answer, and a judge that reads less does not take its
        place unasked.
        """
        if window.state != "failed":
            return None
        trouble = trouble_of(self.ledger.targeting(window.event_id))
        is_its = trouble is None or trouble.last.facts.get("backend") == self.backend.name
        return trouble.last if trouble and not is_its and trouble.stage in NO_ANSWER else None

    def resting(self, windows: Sequence[WindowRow], retry: Retry = "due") -> set[str]:
        """Return who is left alone for now: what they refused one window they would refuse the
        others.
        """
        troubles = [] if retry == "all" else [(window, self.trouble(window)) for window in windows]
        rest = [
            one
            for one, trouble in troubles
            if trouble and trouble.outages and not _pause_is_over(trouble, retry)
        ]
        return {self.who(window) for window in rest}

    def who(self, window: WindowRow) -> str:
        """Return whom the backend asks about a window, "" where it asks one alone."""
        if not isinstance(self.backend, Asks):
            return ""
        recorded = self.ledger.event(window.event_id)
        return self.backend.who(str(((recorded and recorded.data) or {}).get("agent") or ""))

    def reopened(self) -> list[WindowRow]:
        """Return the windows that waited for a budget which allows them now, oldest first."""
        waiting = waiting_for_budget(self.ledger)
        if not waiting or not self.backend.is_model:
            return waiting
        lacks = isinstance(self.gate.left_of_month(self.ledger), str) or self.gate.left_of_day()
        return [] if lacks else waiting

    def finish(self, window: WindowRow, *, forced: bool = False) -> Reflected:
        """Take one window through the steps it still lacks; a forced one goes past the gate."""
        recorded = self.ledger.event(window.event_id)
        if recorded is None or recorded.data is None:
            return self.failed(
                window, REDACTED, ("the session's event was redacted before it was judged")
            )
        if recorded.type == ev.TRAJECTORY_RECORDED:
            from reflector.reflection.trajectories import finish

            return finish(self, window, recorded, forced=forced)[0]
        session, before = self.session(recorded), self._of_another(window)
        iteration, answer = self._last_answer(window)
        asked = answer or self._ask(window, session, iteration, forced=forced)
        done = asked if isinstance(asked, Reflected) else self._complete(window, session, asked)
        return (
            replace(done, instead_of=judge_in(before))
            if before and done.outcome == "completed"
            else done
        )

    def session(self, recorded: Event) -> Session:
        """Read the session of a recorded window; a window that cites nothing asks nothing of the
        others.
        """
        asks = names_in(recorded, "cited") or names_in(recorded, "carried")
        return Session.read(self.ledger, recorded) if asks else Session(recorded)

    def request(self, session: Session) -> Request:
        """Return what the backend is asked about a recorded window, which must not be redacted."""
        recorded, read = session.recorded, session.text(self.backend)
        known = {row.name: row for row in self.ledger.rows() if row.counts}
        cited = tuple(
            name
            for name in dict.fromkeys([*read.carried, *names_in(recorded, "cited")])
            if name in known
        )
        return Request(
            session_id=recorded.session_id or "",
            playbook=tuple(
                row.bullet for row in known.values() if row.status == "live" or row.name in cited
            ),
            cited=cited,
            again=tuple(read.carried),
            messages=partial(read.messages, known.keys(), self.held.get(recorded.event_id, ())),
            agent=str(recorded.facts.get("agent") or ""),
            passed=read.passed,
            judged=read.judged,
            settled=read.settled,
        )

    def _last_answer(self, window: WindowRow) -> tuple[int, Event | None]:
        """(iteration, its answer): the last one, or the next without one where the last could
        not be read.
        """
        if window.state == "pending":
            return 1, None
        reflection_id = reflection_id_of(window.event_id, self.backend.name)
        found = [
            event
            for event in self.ledger.targeting(window.event_id)
            if event.reflection_id == reflection_id
        ]
        answers = [event for event in found if event.type == ev.REFLECTION_ANSWERED]
        if not answers:
            return 1, None
        data = answers[-1].data or {}
        last, since = int(data.get("iteration", 1)), found[found.index(answers[-1]) + 1 :]
        anew = self.backend.quotes and any(_asks_anew(event) for event in since)
        # An earlier version asked about a large window in parts; what it did not finish is asked
        # anew.
        return (last + 1, None) if anew or data.get("parts", 1) > 1 else (last, answers[-1])

    def _ask(
        self, window: WindowRow, session: Session, iteration: int, *, forced: bool
    ) -> Event | Reflected:
        """Return the backend's answer, appended."""
        recorded, request = session.recorded, self.request(session)
        learns = self.gate.config.curate and self.backend.quotes
        # What an empty playbook lacks can be asked all the same: so the first bullet may be
        # proposed.
        has = {"cited": bool(request.cited), "live": learns or bool(request.playbook)}
        gate = self.gate.check(
            self.ledger, recorded, **has, is_model=self.backend.is_model, forced=forced
        )
        if isinstance(gate, str):
            return self.skipped(window, recorded, gate)
        reserve = partial(self.gate.reserve, self.ledger, forced=forced)
        request = replace(request, allowance=gate, reserve=reserve, learns=learns)
        asked: dict[str, Any] = (
            {"asked": [*request.cited], "again": [*request.again]} if self.backend.quotes else {}
        )
        asked |= {"learns": True} if learns else {}
        place, name = (iteration, 1), self.backend.name
        kept = partial(events_of.answered, recorded, name, request.mode, place=place, asked=asked)
        return self.put(window, recorded, partial(self.backend.answer, request), kept)

    def _complete(self, window: WindowRow, session: Session, answer: Event) -> Reflected:
        if answer.data is None:
            return self.failed(window, "answer", "the answer was redacted before it was read")
        # Of a window that cites nothing there is no answer to read, and most cite nothing.
        from reflector.judges.answers import PARSER_VERSION, read_answer
        from reflector.reflection.standing import fault_in, overruled, rests_on, settled

        parsed = read_answer(answer.data)
        if fault := fault_in(self.ledger, answer, parsed):
            if answer.meta.get("stop_reason") == "refusal":
                # A model that declined once declines the same question again, unless a person says
                # otherwise.
                return self.failed(window, "answer", "the model declined to answer", final=True)
            return self.failed(window, "parse", _unread(fault, answer), parser=PARSER_VERSION)
        recorded, reflection_id = session.recorded, answer.reflection_id or ""
        held = self.held.get(recorded.event_id, ())
        try:
            found, learned = rests_on(
                self.ledger, session, answer, parsed.tags, self.gate.config.trusted, held
            )
        except (OSError, UnknownTranscript) as error:
            return self.failed(window, "transcript", str(error))
        done = partial(
            events_of.completed,
            recorded,
            reflection_id,
            parsed,
            answer,
            grounds=found,
            more=learned,
        )
        for is_last in (False, True):
            rows = self.ledger.rows()
            status = {row.name: row.status for row in rows}
            counting = [row.name for row in rows if row.counts]
            tags, out, was = settled(
                self.ledger, session, self.backend, parsed.tags, counting, reflection_id
            )
            events = done(status, tags)
            try:
                self.ledger.append([*out, *events, *overruled(self.ledger, session, events)])
                break
            except Conflict:  # a person retracted one of these tags a moment ago
                if is_last:
                    raise
                session = self.session(recorded)
        tagged = [event.data for event in events[1:]]
        verdicts = [
            f"{tag['name']} {tag['tag']}{unquoted_words(tag)}"
            + (f" (was {was[tag['name']]})" if tag["name"] in was else "")
            for tag in tagged
            if tag["disposition"] == "counted" or tag["name"] in was
        ]
        decided = {tag["name"] for tag in tagged if tag["disposition"] == "counted"}
        undecided = tuple(
            name for name in names_in(recorded, "cited") if name in counting and name not in decided
        )
        more: Any = {"undecided": undecided, "dropped": tuple(_dropped(tagged))}
        return Reflected(
            window.session_id, window.event_id, "completed", ", ".join(verdicts), **more
        )


def _dropped(tagged: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the helpful and harmful verdicts that do not count, each with the reason."""
    for tag in tagged:
        if tag["tag"] in ("helpful", "harmful") and (why := DROPPED.get(tag["disposition"])):
            yield f"{tag['name']} {tag['tag']}, not counted: {why}"


def _unread(fault: str, answer: Event) -> str:
    """Return why an answer is none, with how it ended where that may be the cause."""
    ended = str(answer.meta.get("stop_reason") or "")
    if not str(answer.facts.get("answer", "")).strip():
        return f"the answer is empty (stop_reason {ended or 'unknown'})"
    return fault if ended in ("", "end_turn", "stop_sequence") else f"{fault} (stop_reason {ended})"


def _pause_is_over(trouble: Trouble, retry: Retry) -> bool:
    return datetime.now(UTC) >= (trouble.not_before if retry == "left" else trouble.next_try)


def _asks_anew(event: Event) -> bool:
    """True for a failure after which the model is asked once more about the whole window: this very
    parser would fail again, or the model declined to answer.
    """
    from reflector.judges.answers import PARSER_VERSION

    if event.type != ev.REFLECTION_FAILED:
        return False
    declined = event.facts.get("stage") == "answer" and bool(event.facts.get("final"))
    return event.facts.get("parser") == PARSER_VERSION or declined
