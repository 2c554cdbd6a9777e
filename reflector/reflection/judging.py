"""A recorded window judged again, without a trace.

Invariant: nothing here appends, so nothing is counted. An answer that the ledger has already is read again instead of
asked for, and all are read by today's parser.

A window is asked about as it was when it was recorded. The names that the windows before it had left undecided count as
cited also when it has decided them since, or a judge of later days would see less than the one of its own. The playbook
is that of today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.events.spent import Spent, spent_on
from reflector.ledger.store import Ledger, WindowRow
from reflector.playbook.counting import VERDICTS, decisive
from reflector.reflection.answers import Parsed, parse_answer
from reflector.reflection.protocol import OUTAGES, Answer, Backend, BackendError, Request
from reflector.reflection.runner import Runner
from reflector.reflection.window import names_in
from reflector.text.secrets import quote
from reflector.transcripts.source import UnknownTranscript

if TYPE_CHECKING:
    from reflector.reflection.prompting import Prompt

MAX_RATIONALE = 300
_DATED = 9  # of -20261024, which an API appends to the name of the model that it was asked for


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said about a bullet; the rationale is one line of at most MAX_RATIONALE characters."""

    tag: str
    rationale: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """A window to judge; `story` is every event about it."""

    window: WindowRow
    recorded: Event
    request: Request
    story: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a window was judged.

    verdicts  by bullet, only bullets of the playbook; None where it could not be judged
    failure   why not; "" also where it was not asked because that would have led to no comparison
    strays    usable tags for bullets that the playbook has not
    models    who answered, in order
    """

    verdicts: Mapping[str, Verdict] | None
    failure: str = ""
    spent: Spent = field(default_factory=Spent)
    strays: int = 0
    models: tuple[str, ...] = ()


@dataclass(slots=True)
class Judge:
    """One of those that are compared: a backend, or what the ledger recorded.

    spec             what the person calls it
    backend          who is asked, None where only recorded answers are read
    recorded_of      whose recorded answers are read, None for anybody's
    model            the model that would be asked
    template_sha256  the template that it would be asked with
    fresh            ask also where the ledger has an answer
    uncited          whether it can judge a window that cites nothing
    refused          why it is asked nothing more, "" while it answers
    """

    spec: str
    backend: Backend | None
    recorded_of: str | None = None
    model: str = ""
    template_sha256: str | None = None
    fresh: bool = False
    uncited: bool = True
    refused: str = field(default="", init=False)

    @property
    def is_model(self) -> bool:
        """Whether asking it costs something."""
        return self.backend is not None and self.backend.is_model

    def recorded(self, case: Case) -> Event | None:
        """Return the recorded answer that replaces a call."""
        if self.backend is None:
            return last_answer(case.story, lambda answer: self.recorded_of in (None, _backend_of(answer)))
        # Who costs nothing is asked: a recorded answer of the rules may be one of older rules.
        if self.fresh or not self.backend.is_model:
            return None
        return last_answer(case.story, self._is_same)

    def plan(self, case: Case) -> Judgement | int:
        """The judgement of a window where it costs nothing, else the estimated tokens of the call that it takes."""
        if event := self.recorded(case):
            model = _model_of(event)
            return self._read(case, (event.data or {})["answer"], spent_on(event.meta, model, asked=False), model)
        if self.backend is None:
            whose = f" of {self.recorded_of}" if self.recorded_of else ""
            return Judgement(None, f"the ledger has no answer{whose}")
        if not self.backend.is_model:
            return self.ask(case)
        try:
            prompt = prompt_of(self.backend, case.request)
            return prompt.tokens if prompt is not None else 0
        except Exception as error:  # noqa: BLE001  as in `ask`
            return Judgement(None, _words(error))

    def ask(self, case: Case) -> Judgement:
        """Ask the backend about a window. Never raises for what a backend, an answer or a transcript does."""
        if self.backend is None:
            raise ValueError(f"{self.spec} asks nobody")
        if self.refused:
            return Judgement(None, f"not asked after another window's {self.refused}")
        try:
            answer = self.backend.answer(case.request)
        except Exception as error:  # noqa: BLE001  a backend's bug is a window that was not judged
            failure = _words(error)
            if isinstance(error, BackendError) and _is_for_all(error):
                self.refused = failure
            return Judgement(None, failure)
        return self._read(case, answer.text, spent_on(answer.meta, answer.model, asked=True), answer.model)

    def _read(self, case: Case, text: str, spent: Spent, model: str) -> Judgement:
        parsed = parse_answer(text)
        told = (quote(model, 100),)
        if parsed.failed:
            reason = "; ".join(parsed.problems) or "the answer holds no JSON object"
            return Judgement(None, quote(f"parse: {reason}", MAX_RATIONALE), spent, models=told)
        verdicts, strays = verdicts_of(parsed, {bullet.name for bullet in case.request.playbook})
        # The rules say again what the session's earlier windows have decided, and no other judge is asked about that.
        decided = set(names_in(case.recorded, "carried")).difference(case.request.cited)
        verdicts = {name: verdict for name, verdict in verdicts.items() if name not in decided}
        return Judgement(verdicts, "", spent, strays, told)

    def _is_same(self, answer: Event) -> bool:
        data = answer.data or {}
        assert self.backend is not None
        return (
            _backend_of(answer) == self.backend.name
            and _is_model(_model_of(answer), self.model)
            and data.get("template_sha256") == self.template_sha256
        )


def prompt_of(backend: Backend, request: Request) -> Prompt | None:
    """Return what a backend would send about a window; None for one that asks nobody.

    Raises BackendError, and what reading the transcript raises.
    """
    made = getattr(backend, "prompt", None) or getattr(getattr(backend, "backend", None), "prompt", None)
    return made(request) if made is not None else None


def case_of(ledger: Ledger, window: WindowRow) -> Case | None:
    """Return a window as it was when it was recorded; None where its event was redacted. Raises LedgerError."""
    recorded = ledger.event(window.event_id)
    if recorded is None or recorded.data is None:
        return None
    request = Runner(ledger, _Nobody()).request(recorded, then=True)
    return Case(window, recorded, request, ledger.targeting(window.event_id))


def last_answer(story: Sequence[Event], is_wanted: Callable[[Event], bool]) -> Event | None:
    """Return the last wanted answer that was not redacted, and that is not one of several about a window in parts."""
    answers = (event for event in reversed(story) if event.type == ev.REFLECTION_ANSWERED and event.data is not None)
    return next((one for one in answers if is_wanted(one) and (one.data or {}).get("parts", 1) == 1), None)


def verdicts_of(parsed: Parsed, playbook: set[str]) -> tuple[dict[str, Verdict], int]:
    """One verdict for each bullet of the playbook that an answer judges, and how many tags are for others."""
    said: dict[str, list[Verdict]] = {}
    strays = 0
    for tag in parsed.tags:
        if tag.malformed is not None or tag.name is None or tag.tag not in VERDICTS:
            continue
        if tag.name not in playbook:
            strays += 1
            continue
        said.setdefault(tag.name, []).append(Verdict(tag.tag, quote(tag.rationale, MAX_RATIONALE)))
    return {name: merged(verdicts) for name, verdicts in said.items()}, strays


def merged(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict for several, at least one, by the rule of `decisive`."""
    decided = decisive(verdicts, lambda verdict: verdict.tag)
    if len(decided) > 1:
        return Verdict("neutral", "called helpful and harmful at once")
    return decided[0] if decided else verdicts[0]


class _Nobody:
    """The backend of a runner that must not ask any."""

    name = "nobody"
    is_model = False

    def answer(self, request: Request) -> Answer:
        raise BackendError("nobody is asked", stage="backend", final=True)


def _words(error: Exception) -> str:
    """Return where it went wrong and how."""
    if isinstance(error, BackendError):
        stage, said = error.stage, str(error)
    elif isinstance(error, OSError | UnknownTranscript):
        stage, said = "transcript", str(error)
    else:
        stage, said = "backend", f"{type(error).__name__}: {error}"
    return quote(f"{stage}: {said}", MAX_RATIONALE)


def _backend_of(answer: Event) -> object:
    return (answer.data or {}).get("backend")


def _model_of(answer: Event) -> str:
    return str((answer.data or {}).get("model") or "")


def _is_model(answered: str, asked: str) -> bool:
    """Whether an answer is from the model that would be asked; the API returns a dated name for one without a date."""
    date = answered.removeprefix(asked)
    return answered == asked or (len(date) == _DATED and date[0] == "-" and date[1:].isdigit())


def _is_for_all(error: BackendError) -> bool:
    """Whether the next window would fail alike: an API that is away or refuses us, but not one question too long."""
    refused = error.attempts > 0 and error.stage == "request" and not getattr(error, "too_long", False)
    return error.stage in OUTAGES or refused
