"""Questions about bullets that a session need not cite: one question for each window, answered
bullet by bullet with evidence.

Invariant: an answer is in the ledger before anything reads it, with the names in its question and
those that had no room (`unasked`). So no window is asked twice about a bullet, and a killed check
continues at its place.

A bullet is relevant, followed, broken, helpful or harmful only if the quote is in the one turn that
is named and is not the advice's own words. For followed and broken, the quote must be from a user,
from a run, or from the agent and its commands, never from a file or a page. Helpful and harmful
need the same proof as every verdict of a model. A bullet without an answer was not seen in the
shown text. These verdicts count in `helpful` and `harmful` of a rule in a file, which is not cited
by name. For other bullets they count only if `checked_counts` is set. A session counts once for a
bullet.

A failed question is not a step of its window, so a drain does not try anything again because of it.
A text that is not an answer is such a failure. It has no reading, its names stay unasked, and a
later check asks again, up to `MOST_QUESTIONS` times for each judge. A proposal needs a quote from
the turn that it names, and this quote must not be the advice's own words. Otherwise it is dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from itertools import compress
from typing import Any, Final, NamedTuple

from reflector.events.event import (
    BULLET_ADDED,
    BULLET_CHECKED,
    BULLET_RESTORED,
    BULLET_TAGGED,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_FAILED,
    REFLECTION_SKIPPED,
    SESSION_OUTCOME,
    SESSION_RECORDED,
    Event,
    NewEvent,
    completion_id,
    identity,
    time_of,
)
from reflector.judges.answers import (
    MAX_QUOTE,
    PARSER_VERSION,
    Parsed,
    ParsedTag,
    fault_of,
    find_answer,
    read_answer,
)
from reflector.judges.evidence import LEAST_QUOTE, Ground, grounds
from reflector.judges.excerpt import estimate_tokens
from reflector.judges.fields import text_at
from reflector.judges.measured import counting_words
from reflector.judges.protocol import (
    MOST_QUESTIONS,
    NO_ANSWER,
    OUTAGES,
    Asks,
    Backend,
    BackendError,
    Request,
    judge_named,
)
from reflector.ledger.as_of import Past
from reflector.ledger.store import BulletRow, Ledger, WindowRow
from reflector.playbook.bullet import Bullet, sections_text
from reflector.playbook.document import brief
from reflector.playbook.names import SECTIONS
from reflector.prices import spent_on
from reflector.reflection import recorder as events_of
from reflector.reflection.gate import Gate
from reflector.reflection.recorder import (
    REDACTED_ANSWER,
    Failure,
    Recorder,
    Reflected,
    with_stop_reason,
)
from reflector.reflection.trouble import GIVEN_UP, Trouble, judge_in, trouble_of
from reflector.reflection.window import (
    NOTHING_FOLLOWS,
    names_in_window,
    own_messages,
    row_of_window,
    writer_of,
)
from reflector.text.secrets import quote
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

MODE: Final = "checked"
#: The most tokens of a question; twice as many rarely show more evidence (docs/judging.md).
ROOM = 32_000
#: The most of them that the advice may take.
_MAX_ADVICE_TOKENS = 8_000
#: The first parser that refuses texts that are not answers.
_STRICT_PARSER = 5
#: Faults that make the answer about a bullet worthless.
NOTHING = frozenset(
    {"no_quote", "misquoted", "own_words", "not_asked", "unknown_bullet", "malformed"}
)
#: The speakers whose words show whether a line was followed.
_SHOW = frozenset({"person", "run", "agent"})
_MAX_PROPOSALS = 10
_MAX_PROPOSAL_CHARACTERS = 500


class Todo(NamedTuple):
    """A question about a window, with the names of its bullets. With an `answer`, it only waits to
    be read.
    """

    window: Event
    names: tuple[str, ...]
    answer: Event | None = None


def todo(
    ledger: Ledger,
    session_id: str,
    names: Sequence[str],
    judge: Callable[[str], str] = lambda _: "",
    *,
    again: bool = False,
) -> Iterator[Todo]:
    """Yield the questions about a session's windows, oldest first. A window that waits for the
    verdicts on its own citations is skipped for now.

    judge  returns the judge's name (see `judge_named`) for the agent that wrote a session
    again  ask even if this judge failed as often as it is asked automatically
    """
    states = {row.event_id: row.state for row in ledger.windows(session_id)}
    failures_by_window = _failures(ledger, session_id)
    for window in ledger.events(types=[SESSION_RECORDED], session_id=session_id):
        if not _is_askable(ledger, window, states) or ledger.retracted(window.event_id):
            continue
        failures = failures_by_window.get(window.event_id, [])
        answers = _answers_about(ledger, window, failures)
        for answer in answers.unread:
            yield Todo(window, (), answer)
        unasked = tuple(name for name in names if name not in answers.names)
        if unasked and (again or _may_ask(judge(writer_of(window)), failures)):
            yield Todo(window, unasked)


def _is_askable(ledger: Ledger, window: Event, states: Mapping[str, str]) -> bool:
    """Return whether a window is new and not a subagent's. If it cites anything, it must also be
    judged, or too early to be.
    """
    if window.data is None or window.data.get("agent_id"):
        return False
    if window.data["window"].get("mode") != "new":
        return False
    cites = names_in_window(window)
    state = states.get(window.event_id)
    return not cites or state == "completed" or (state == "skipped" and _is_early(ledger, window))


def _is_early(ledger: Ledger, window: Event) -> bool:
    """Return whether a window was last skipped because nothing followed its citations."""
    skips = ledger.targeting(window.event_id, [REFLECTION_SKIPPED])
    return bool(skips) and skips[-1].fact("reason") == NOTHING_FOLLOWS


def _may_ask(judge: str, failures: Sequence[Event]) -> bool:
    """Return whether a judge is asked again automatically."""
    own = [
        failure
        for failure in failures
        if judge_in(failure) == judge and failure.fact("stage") not in OUTAGES
    ]
    return len(own) < MOST_QUESTIONS


class _Answers(NamedTuple):
    """The answers about a window.

    unread  those that wait to be read
    names   in their questions, or omitted for lack of room
    """

    unread: list[Event]
    names: set[str]


def _answers_about(ledger: Ledger, window: Event, failures: Sequence[Event]) -> _Answers:
    """Return the answers about a window, without refused texts and unsound readings."""
    story = ledger.targeting(window.event_id)
    readings_by_id = {
        event.reflection_id: event for event in story if event.type == REFLECTION_COMPLETED
    }
    refused = {failure.fact("reflection") for failure in failures}
    answers = _Answers([], set())
    for answer in story:
        if not _is_answer(answer):
            continue
        reading = readings_by_id.get(answer.reflection_id)
        if reading is None:
            if answer.reflection_id in refused:
                continue
            answers.unread.append(answer)
        elif not is_sound_reading(answer, reading):
            continue
        answers.names.update(answer.fact("asked", ()), answer.fact("unasked", ()))
    return answers


def _is_answer(event: Event) -> bool:
    return event.type == REFLECTION_ANSWERED and event.fact("mode") == MODE


#: The verdicts of a finding, the worst first.
WORST_FIRST: Final = ("harmed", "not followed", "helped")


def verdicts_in(finding: Event) -> Iterator[str]:
    """Yield the verdicts of a finding, in the order of `WORST_FIRST`."""
    facts = finding.facts
    is_proved = facts.get("disposition") in ("checked", "counted")
    tag = facts.get("tag") if is_proved else ""
    given = (tag == "harmful", facts.get("followed") == "no", tag == "helpful")
    return compress(WORST_FIRST, given)


def is_sound_reading(answer: Event, completed: Event) -> bool:
    """Return whether a text that was read is an answer, because earlier versions also read other
    texts.
    """
    version = completed.fact("parser")
    is_strict = type(version) is int and version >= _STRICT_PARSER
    return is_strict or answer.data is None or not read_answer(answer.facts).fault


def readings(answer: Event, completed: Mapping[str, Event]) -> Iterator[Event]:
    """Yield the readings of an answer, the first and then those of `recount`; `completed` has all
    readings by their ids.
    """
    reflection_id = answer.reflection_id or ""
    while True:
        reading = completed.get(completion_id(reflection_id))
        if reading is None:
            return
        yield reading
        reflection_id = _recounted_id(reading)


def _recounted_id(completed: Event) -> str:
    return identity("reflection", completed.event_id, "recounted")


def _failures(ledger: Ledger, session_id: str | None = None) -> Mapping[str, list[Event]]:
    """Return the failed questions about windows, by window."""
    failures: dict[str, list[Event]] = defaultdict(list)
    for event in ledger.events(types=[REFLECTION_FAILED], session_id=session_id):
        if window_id := event.fact(MODE):
            failures[str(window_id)].append(event)
    return failures


def unanswered(ledger: Ledger) -> list[tuple[Event, Trouble]]:
    """Return the windows about which a judge gave no answer, and which have had none since, with
    the trouble.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    windows: list[tuple[Event, Trouble]] = []
    for window_id, failures in _failures(ledger).items():
        ends = (*NO_ANSWER, GIVEN_UP)
        last = next((event for event in failures[::-1] if event.fact("stage") in ends), None)
        window = ledger.event(window_id)
        if last is None or last.facts["stage"] == GIVEN_UP:
            continue
        if window is None or window.data is None:
            continue
        trouble = trouble_of(failures, judge_in(last))
        is_read = _is_read_after(ledger, window_id, last.position)
        if trouble and not is_read and not ledger.retracted(window_id):
            windows.append((window, trouble))
    return windows


def _is_read_after(ledger: Ledger, window_id: str, position: int) -> bool:
    """Return whether an answer about a window was read after a position."""
    readings = ledger.targeting(window_id, [REFLECTION_COMPLETED])
    return any(event.position > position and event.fact("mode") == MODE for event in readings)


def session_starts(ledger: Ledger, upto: int | None = None) -> Mapping[str, datetime]:
    """Return the start of each session whose records have times.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    starts: dict[str, datetime] = {}
    for event in ledger.events(types=[SESSION_OUTCOME], upto=upto):
        if (began := time_of(event.fact("began"))) and event.session_id:
            starts[event.session_id] = min(began, starts.get(event.session_id, began))
    return starts


class Checker(Recorder):
    """Asks one ledger's windows with one backend, for `reflector check`."""

    def __init__(
        self, ledger: Ledger, backend: Backend, gate: Gate, *, learns: bool = False
    ) -> None:
        super().__init__(ledger, backend, gate=gate)
        self.learns = learns
        #: The cost in USD of the answers whose price is known.
        self.spent = Decimal(0)

    def request(self, window: Event, names: Sequence[str]) -> tuple[Request, tuple[str, ...]]:
        """Return the question about a window, and the names that have no room in it."""
        rows = self.ledger.rows_by_name()
        bullets = [
            Bullet(name, rows[name].section, rows[name].text) for name in names if name in rows
        ]
        room = len(bullets)
        while room > 1 and estimate_tokens(sections_text(bullets[:room])) > _MAX_ADVICE_TOKENS:
            room -= 1
        request = Request(
            session_id=window.session_id or "",
            playbook=tuple(bullets[:room]),
            cited=(),
            messages=partial(own_messages, window),
            agent=writer_of(window),
            reserve=partial(self.gate.reserve, self.ledger),
            template="check.txt",
            learns=self.learns,
        )
        return request, tuple(bullet.name for bullet in bullets[room:])

    def ask(self, question: Todo) -> str:
        """Ask about a window and read the answer; return why there is none, "" for an answer.

        Raises:
            BackendError: nothing more can be asked now: the budget is spent, or the judge is away.
            LedgerError: the ledger cannot be read or written.
        """
        window = question.window
        row = row_of_window(self.ledger, window)
        answer: Event | Reflected | None = question.answer
        if answer is None:
            answer = self._ask(row, window, question.names)
        if isinstance(answer, Reflected):
            if answer.stage == "budget" or answer.stage in OUTAGES:
                raise BackendError(answer.detail, stage=answer.stage)
            return answer.detail
        return self._read(row, window, answer)

    def _ask(self, row: WindowRow, window: Event, names: Sequence[str]) -> Event | Reflected:
        """Ask the judge about rules in a window. Return the event with the answer, or the reason
        why there is none.
        """
        request, unasked = self.request(window, names)
        story = self.ledger.targeting(window.event_id)
        number = sum(map(_is_answer, story))
        asked = [bullet.name for bullet in request.playbook]
        facts: dict[str, Any] = {"asked": asked, "again": [], "unasked": [*unasked], "beside": True}
        if self.learns:
            facts["learns"] = True
        event_of = partial(
            events_of.answer_event,
            window,
            self.backend.name,
            MODE,
            about=(MODE, number),
            question=facts,
        )
        answer = self.ask_and_store(row, window, partial(self.backend.answer, request), event_of)
        if isinstance(answer, Event):
            self.spent += spent_on(answer.meta).cost
        return answer

    def judge(self, writer: str) -> str:
        """Return the judge's name (see `judge_named`) for the agent that wrote a session."""
        return judge_named(self.backend.name, self._client(writer))

    def _client(self, writer: str) -> str:
        return self.backend.who(writer) if isinstance(self.backend, Asks) else ""

    def record_no_answer(self, window: WindowRow, recorded: Event, failure: Failure) -> Reflected:
        """Record why a question has no answer. This is not a step of its window. A spent budget
        leaves no event, because a later check asks again.
        """
        reflected = Reflected(
            window.session_id, window.event_id, "failed", failure.message, failure.stage
        )
        if failure.stage == "budget":
            return reflected
        plain = Failure(failure.stage, failure.message, usage=failure.usage)
        self._append_failure(window, recorded, plain)
        return reflected

    def _append_failure(
        self, window: WindowRow, recorded: Event, failure: Failure, **facts: Any
    ) -> None:
        client = self._client(writer_of(recorded))
        event = events_of.failure_event(window, self.backend.name, failure, client=client)
        failures = self.ledger.events(types=[REFLECTION_FAILED], session_id=window.session_id)
        event_id = identity(REFLECTION_FAILED, MODE, window.event_id, sum(1 for _ in failures))
        data = {**event.data, MODE: window.event_id, **facts}
        event = replace(event, event_id=event_id, data=data, target_id=None, reflection_id=None)
        self.ledger.append([event])

    def _read(self, row: WindowRow, window: Event, answer: Event) -> str:
        """Append an answer's reading; return why there is none, "" for a reading."""
        if answer.data is None:
            return REDACTED_ANSWER
        parsed = read_answer(answer.data)
        if fault := self._fault(answer, parsed):
            reason = with_stop_reason(fault, answer)
            failure = Failure("parse", reason, parser=PARSER_VERSION)
            self._append_failure(row, window, failure, reflection=answer.reflection_id)
            return f"not answered: {reason}"
        try:
            messages = list(own_messages(window))
        except (OSError, UnknownTranscript) as error:
            return str(error)
        self._append_reading(window, answer, parsed, messages)
        return ""

    def _append_reading(
        self, window: Event, answer: Event, parsed: Parsed, messages: Sequence[Message]
    ) -> None:
        """Append the reading of an answer in one transaction."""
        rows = self.ledger.rows_by_name()
        advice = [row.text for row in rows.values() if row.status != "removed"]
        trusted = counting_words(self.gate.config, answer.facts)
        tag_grounds = grounds(parsed.tags, messages, (), advice, trusted)
        extra = {"mode": MODE} | learned_in(answer.facts, messages, advice)
        (completed,) = events_of.completion_events(
            window, answer.reflection_id or "", parsed, answer, {}, [], tag_grounds, extra
        )
        asked = answer.facts["asked"]
        findings = [
            _finding(tag, tag_grounds[tag.index], rows, asked, is_sure=tag.sure in trusted)
            for tag in parsed.tags
            if tag.relevant
        ]
        countable = _countable(self.ledger, completed.session_id)
        if not self.gate.config.checked_counts:
            countable &= {name for name, row in rows.items() if row.status == "watched"}
        self.ledger.append(_reading_events(completed, findings, countable))

    def _fault(self, answer: Event, parsed: Parsed) -> str:
        """Return why a text is not an answer to its question, "" for an answer."""
        if answer.meta.get("stop_reason") == "refusal":
            return "the model declined to answer"
        if not answer.facts["answer"].strip():
            return "the answer is empty"
        asked = answer.facts["asked"]
        return answer_fault(answer, parsed, asked, asked)


def _reading_events(
    completed: NewEvent, findings: Sequence[Mapping[str, Any]], countable: Collection[str]
) -> list[NewEvent]:
    """Return the events of an answer that was read, with the tags that may count."""
    events = [completed]
    for finding in findings:
        is_proved = finding["disposition"] in ("checked", "counted")
        is_counted = is_proved and finding["name"] in countable
        disposition = "counted" if is_counted else "checked"
        data = {**finding, "disposition": disposition} if is_proved else finding
        place = (completed.reflection_id or "", finding["index"])
        checked_id = identity(BULLET_CHECKED, *place)
        check = replace(completed, type=BULLET_CHECKED, event_id=checked_id, data=data)
        events.append(check)
        if is_counted:
            tag_id = identity(BULLET_TAGGED, *place)
            events.append(replace(check, type=BULLET_TAGGED, event_id=tag_id, target_id=None))
    return events


def _countable(ledger: Ledger, session_id: str | None) -> frozenset[str]:
    """Return the bullets that count and on which the session has no verdict that counts."""
    counting = ledger.counting_names()
    tags = ledger.events(types=[BULLET_TAGGED], session_id=session_id)
    judged = {tag.fact("name") for tag in tags if _counts(ledger, tag)}
    return frozenset(counting - judged)


def _counts(ledger: Ledger, tag: Event) -> bool:
    completed_id = completion_id(tag.reflection_id)
    is_counted = tag.fact("disposition") == "counted"
    return is_counted and not ledger.retracted(tag.event_id, completed_id)


def recount(ledger: Ledger, *, counts: bool, session_id: str | None = None) -> int:
    """Read the recorded answers again if the setting `checked_counts` changed since then; return
    how many changed.

    The playbook's lock must be held.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    changed = 0
    ever_in_files = _ever_in_files(ledger)
    for old in list(ledger.events(types=[REFLECTION_COMPLETED], session_id=session_id)):
        if old.fact("mode") != MODE or ledger.retracted(old.event_id):
            continue
        checks = ledger.events(
            types=[BULLET_CHECKED], after=old.position, session_id=old.session_id
        )
        findings = [check.facts for check in checks if check.reflection_id == old.reflection_id]
        counted = {str(one["name"]) for one in findings if one["disposition"] == "counted"}
        countable = _countable(ledger, old.session_id) | counted
        countable &= {str(finding["name"]) for finding in findings}
        if not counts:
            countable = _watched_then(ledger, countable & ever_in_files, old.position)
        events = _reading_events(_reading_again(old), findings, countable)
        tags = [event for event in events if event.type == BULLET_TAGGED]
        if counted != {event.data["name"] for event in tags}:
            reason = "the setting `checked_counts` changed, so reflector read this answer again"
            events.append(events_of.retraction_of(ledger, old, reason, "reparse"))
            ledger.append([*events, *events_of.taken_back_again(ledger, old, events)])
            changed += 1
    return changed


def _watched_then(ledger: Ledger, names: frozenset[str], position: int) -> frozenset[str]:
    """Return those of some rules that were watched lines of files at a position."""
    if not names:
        return names  # the past need not be computed
    entries = Past(ledger, position).entries
    return frozenset(
        name for name in names if name in entries and entries[name].status == "watched"
    )


def _reading_again(old: Event) -> NewEvent:
    """Return the event of a reading with the same facts and an id of its own."""
    reflection_id = _recounted_id(old)
    event_id = completion_id(reflection_id)
    ids = (old.session_id, reflection_id, old.target_id)
    return NewEvent(old.type, event_id, old.facts, old.actor, old.occurred_at, *ids)


def _ever_in_files(ledger: Ledger) -> set[str]:
    """Return the rules that are or were in files."""
    events = ledger.events(types=[BULLET_ADDED, BULLET_RESTORED])
    return {str(event.facts["name"]) for event in events if event.fact("watched")}


def _finding(
    tag: ParsedTag,
    ground: Ground,
    rows: Mapping[str, BulletRow],
    asked: Collection[str],
    *,
    is_sure: bool,
) -> dict[str, Any]:
    """Return the data of the event of one bullet's answer."""
    fault = _fault_of_tag(tag, ground, rows, asked)
    data = {"index": tag.index, "name": tag.name, "tag": tag.tag, "disposition": fault or "checked"}
    is_shown = is_sure and ground.words in _SHOW
    if tag.followed and is_shown and fault not in NOTHING:
        data["followed"] = tag.followed
    return data


def _fault_of_tag(
    tag: ParsedTag, ground: Ground, rows: Mapping[str, BulletRow], asked: Collection[str]
) -> str:
    """Return why a bullet's answer proves neither help nor harm, "" if it does."""
    if tag.malformed or tag.name is None:
        return "malformed"
    if tag.name not in rows:
        return "unknown_bullet"
    if tag.name not in asked:
        return "not_asked"
    if ground.words == "playbook":
        return "own_words"
    if not ground.words:
        is_short = tag.turn is None or len(tag.quote) < LEAST_QUOTE
        return "no_quote" if is_short else "misquoted"
    return ground.fault if tag.tag in ("helpful", "harmful") else "neutral"


def answer_fault(
    answer: Event, parsed: Parsed, names: Collection[str], replaceable: Collection[str]
) -> str:
    """Return why a text is not an answer about these names, "" for an answer. Its proposals may
    replace only the replaceable bullets.
    """
    fault = fault_of(parsed, names)
    if fault or not answer.fact("learns"):
        return fault
    return _fault_of_proposals(answer.facts["answer"], replaceable)


def _fault_of_proposals(answer: str, replaceable: Collection[str]) -> str:
    """Return why an answer's proposals cannot be read, "" if they can. A fault is that they are not
    a list of objects, or that one replaces a bullet that is not replaceable.
    """
    proposals = _raw_proposals(answer)
    if proposals is None:  # a model that proposes nothing may omit them
        return ""
    if not isinstance(proposals, list):
        return f"`proposals` in the judge's answer is not a list: {brief(proposals)}"
    for index, entry in enumerate(proposals):
        if not isinstance(entry, Mapping):
            return f"proposal {index} is not an object: {brief(entry)}"
        name = entry.get("name")
        is_shown = isinstance(name, str) and _bare(name) in replaceable
        if entry.get("kind") == "supersede" and not is_shown:
            return f"proposal {index} names {brief(name)}, a rule that the judge was not shown"
    return ""


def _raw_proposals(answer: str) -> object:
    return (find_answer(answer).value or {}).get("proposals")


def _bare(name: str) -> str:
    """Return a name without the brackets and spaces that models write around it."""
    return name.strip("[] ")


def learned_in(
    data: Mapping[str, Any], messages: Iterable[Message], advice: Collection[str]
) -> dict[str, Any]:
    """Return the proposals of an answer, as the event of its reading has them; `messages` as for
    `grounds`.
    """
    entries = _raw_proposals(data["answer"]) if data.get("learns") else None
    if not isinstance(entries, list):
        return {}
    proposals = [proposal for proposal in map(_proposal, entries[:_MAX_PROPOSALS]) if proposal]
    if not proposals:
        return {}
    quotes = [
        ParsedTag(index, None, None, turn=proposal["turn"], quote=proposal["quote"])
        for index, proposal in enumerate(proposals)
    ]
    proposal_grounds = grounds(quotes, messages, (), advice, ())
    grounded = [
        proposal | {"words": proposal_grounds[index].words}
        for index, proposal in enumerate(proposals)
        if proposal_grounds[index].words not in ("", "playbook")
    ]
    return {"proposals": grounded} if grounded else {}


def _proposal(entry: object) -> dict[str, Any] | None:
    """Return one proposal, None if it cannot be understood."""
    if not isinstance(entry, Mapping):
        return None
    kind = entry.get("kind")
    name = entry.get("name")
    text = text_at(entry, "text")
    words = text_at(entry, "quote")
    section = text_at(entry, "section")
    if kind not in ("add", "supersede") or section not in SECTIONS:
        return None
    if type(entry.get("turn")) is not int or not words.strip():
        return None
    if not text.strip() or len(text) > _MAX_PROPOSAL_CHARACTERS:
        return None
    if kind == "supersede" and not isinstance(name, str):
        return None
    return {
        "kind": kind,
        "name": _bare(str(name)) if kind == "supersede" else None,
        "section": section,
        "turn": entry["turn"],
        "text": quote(text, _MAX_PROPOSAL_CHARACTERS),
        "why": quote(text_at(entry, "why"), _MAX_PROPOSAL_CHARACTERS),
        "quote": quote(words, MAX_QUOTE),
    }
