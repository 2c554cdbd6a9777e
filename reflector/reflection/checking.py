"""Asking about bullets that no session needs to cite: one question a window, answered bullet by
bullet with evidence.

Invariant: an answer is in the ledger before anybody reads it, with the names that it was asked
about and those that had no room (`unasked`), so no window is asked twice about a bullet and a
killed check goes on where it was. A bullet is relevant, followed or broken, helped or harmed only
where the quote stands in the one turn that is named and is not the advice's own words; followed and
broken are a person's words, a run's or the agent's and its commands', nothing that a file or a page
says; helped and harmed need the proof that every verdict of a model needs. What is not answered was
not seen in what was shown. None of it counts for `helpful` and `harmful` unless `checked_counts`
says so, and then a session counts once for a bullet. A failed question is no step of its window: a
drain tries nothing again because of it. What is no answer is such a failure: it has no reading, its
names stay unasked, and a later check asks again, up to `MOST_QUESTIONS` times a judge. What a model
says to be missing is dropped without a quote that stands in the turn that it names, or with the
advice's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
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
from reflector.judges.protocol import (
    GIVEN_UP,
    MOST_QUESTIONS,
    NO_ANSWER,
    OUTAGES,
    Asks,
    Backend,
    BackendError,
    Request,
    Trouble,
    judge_in,
    judge_named,
    trouble_of,
)
from reflector.ledger.store import BulletRow, Ledger, WindowRow
from reflector.playbook.bullet import Bullet, sections_text
from reflector.playbook.document import brief
from reflector.playbook.names import SECTIONS
from reflector.prices import Usage, spent_on
from reflector.reflection import recorder as events_of
from reflector.reflection.gate import Gate
from reflector.reflection.window import names_in, own_messages
from reflector.text.secrets import quote
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

MODE: Final = "checked"
#: The most tokens of a question: twice as much shows what decides hardly more often
#: (docs/judging.md).
ROOM: Final = 32_000
#: The most of them that the advice may take.
_LINES: Final = 8_000
#: The first parser for which only an answer is read.
_STRICT: Final = 5
#: Why the answer about a bullet says nothing of it.
NOTHING: Final = frozenset(
    {"no_quote", "misquoted", "own_words", "not_asked", "unknown_bullet", "malformed"}
)
#: Whose words show whether a line was followed.
_SHOW: Final = frozenset({"person", "run", "agent"})
#: The most proposals of one answer, and the characters of a text.
MOST_PROPOSED: Final = 10
MOST_TEXT: Final = 500


@dataclass(frozen=True, slots=True)
class Todo:
    """A window that is to be asked about, and the names; with an `answer` it only waits to be
    read.
    """

    window: Event
    names: tuple[str, ...]
    answer: Event | None = None


def _judge_unknown(writer: str) -> str:  # noqa: ARG001
    return ""


def todo(
    ledger: Ledger,
    session_id: str,
    names: Sequence[str],
    judge: Callable[[str], str] = _judge_unknown,
    *,
    again: bool = False,
) -> Iterator[Todo]:
    """Yield what is to be asked about a session's windows, oldest first; one that waits for the
    verdicts on its own citations is left for later.

    judge  returns who is asked about a session that an agent wrote, as `judge_named` has it
    again  ask also where this judge gave no answer as often as it is asked by itself
    """
    states = {row.event_id: row.state for row in ledger.windows(session_id)}
    failures = _failures(ledger, session_id)
    for window in ledger.events(types=[ev.SESSION_RECORDED], session_id=session_id):
        data = window.facts
        cites = names_in(window, "cited") or names_in(window, "carried")
        if window.data is None or data.get("agent_id") or data["window"].get("mode") != "new":
            continue
        if (cites and states.get(window.event_id) != "completed") or ledger.retracted(
            window.event_id
        ):
            continue
        story = ledger.targeting(window.event_id)
        failed = failures.get(window.event_id, [])
        answers = [
            one
            for one in story
            if one.type == ev.REFLECTION_ANSWERED and one.facts.get("mode") == MODE
        ]
        read = {one.reflection_id: one for one in story if one.type == ev.REFLECTION_COMPLETED}
        is_none = {one.facts.get("reflection") for one in failed}
        unread = [
            one
            for one in answers
            if one.reflection_id not in read and one.reflection_id not in is_none
        ]
        sound = [
            one
            for one in answers
            if one.reflection_id in read and is_sound(one, read[one.reflection_id])
        ]
        known = {
            name
            for one in (*unread, *sound)
            for part in ("asked", "unasked")
            for name in one.facts.get(part, ())
        }
        yield from (Todo(window, (), one) for one in unread)
        who = judge(str(data.get("agent") or ""))
        own = [
            one for one in failed if judge_in(one) == who and one.facts.get("stage") not in OUTAGES
        ]
        left = tuple(name for name in names if name not in known)
        if left and (again or len(own) < MOST_QUESTIONS):
            yield Todo(window, left)


def is_sound(answer: Event, completed: Event) -> bool:
    """Return whether an answer that was read is one: earlier versions read others too."""
    version = completed.facts.get("parser")
    is_new = type(version) is int and version >= _STRICT
    return is_new or answer.data is None or not read_answer(answer.facts).fault


def readings(answer: Event, completed: Mapping[str, Event]) -> Iterator[Event]:
    """Yield the readings of an answer among all by their ids: the first, then those of
    `recount`.
    """
    of = answer.reflection_id or ""
    while (event := completed.get(identity(ev.REFLECTION_COMPLETED, of))) is not None:
        yield event
        of = _recounted(event)


def _recounted(completed: Event) -> str:
    return identity("reflection", completed.event_id, "recounted")


def _failures(ledger: Ledger, session_id: str | None = None) -> Mapping[str, list[Event]]:
    """Return the failed questions about windows, by window."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in ledger.events(types=[ev.REFLECTION_FAILED], session_id=session_id):
        if window := event.facts.get(MODE):
            found[str(window)].append(event)
    return found


def unanswered(ledger: Ledger) -> list[tuple[Event, Trouble]]:
    """Return the windows about which a judge gave no answer and none was asked with more success
    since, with the trouble. Raises LedgerError.
    """
    found = []
    for window_id, failures in _failures(ledger).items():
        last = next(
            (one for one in reversed(failures) if one.facts.get("stage") in (*NO_ANSWER, GIVEN_UP)),
            None,
        )
        window = ledger.event(window_id)
        if last is None or last.facts["stage"] == GIVEN_UP or window is None or window.data is None:
            continue
        story = ledger.targeting(window_id)
        later = (
            one
            for one in story
            if one.position > last.position and one.type == ev.REFLECTION_COMPLETED
        )
        trouble = trouble_of(failures, judge_in(last))
        if (
            trouble
            and not any(one.facts.get("mode") == MODE for one in later)
            and not ledger.retracted(window_id)
        ):
            found.append((window, trouble))
    return found


class Checker:
    """Asks one ledger's windows with one backend."""

    def __init__(
        self, ledger: Ledger, backend: Backend, gate: Gate, *, learns: bool = False
    ) -> None:
        self.ledger, self.backend, self.gate, self.learns = ledger, backend, gate, learns
        self.counts, self.trusted = gate.config.checked_counts, gate.config.trusted
        #: In USD, of answers whose price is known.
        self.spent = Decimal(0)

    def request(self, window: Event, names: Sequence[str]) -> tuple[Request, tuple[str, ...]]:
        """Return what is asked about a window, and the names that have no room in it."""
        rows = {row.name: row for row in self.ledger.rows()}
        lines = [
            Bullet(row.name, row.section, row.text) for name in names if (row := rows.get(name))
        ]
        room = next(
            (
                n
                for n in range(len(lines), 1, -1)
                if estimate_tokens(sections_text(lines[:n])) <= _LINES
            ),
            1,
        )
        asked = Request(
            session_id=window.session_id or "",
            playbook=tuple(lines[:room]),
            cited=(),
            messages=partial(own_messages, window),
            agent=str(window.facts.get("agent") or ""),
            reserve=partial(self.gate.reserve, self.ledger),
            template="check.txt",
            learns=self.learns,
        )
        return asked, tuple(one.name for one in lines[room:])

    def ask(self, one: Todo) -> str:
        """Ask about a window and read the answer; return why there is none, "" where there is one.
        Raises BackendError where nothing more can be asked now: the budget is spent, or nobody is
        there. Raises LedgerError.
        """
        answer = one.answer
        if answer is None:
            request, left = self.request(one.window, one.names)
            try:
                given = self.backend.answer(request)
            except (BackendError, OSError, UnknownTranscript) as error:
                self._fail(
                    one.window,
                    getattr(error, "stage", "transcript"),
                    str(error),
                    getattr(error, "usage", None),
                )
                if isinstance(error, BackendError) and error.stage in (
                    "budget",
                    "transport",
                    "access",
                ):
                    raise
                return str(error)
            finally:
                self.gate.settle(self.ledger)
            story = self.ledger.targeting(one.window.event_id)
            number = sum(
                old.type == ev.REFLECTION_ANSWERED and old.facts.get("mode") == MODE
                for old in story
            )
            names = [line.name for line in request.playbook]
            asked: dict[str, Any] = {
                "asked": names,
                "again": [],
                "unasked": [*left],
                "beside": True,
            }
            asked |= {"learns": True} if self.learns else {}
            made = events_of.answered(
                one.window, self.backend.name, MODE, given, about=(MODE, number), asked=asked
            )
            self.ledger.append([made])
            answer = self.ledger.event(made.event_id)
            assert answer is not None  # it was appended above
            self.spent += spent_on(answer.meta, given.model).cost
        return self._read(one.window, answer)

    def judge(self, writer: str) -> str:
        """Return who is asked about a session that an agent wrote, as `judge_named` has it."""
        return judge_named(self.backend.name, self._client(writer))

    def _client(self, writer: str) -> str:
        return self.backend.who(writer) if isinstance(self.backend, Asks) else ""

    def _fail(
        self, window: Event, stage: str, message: str, usage: Usage | None = None, **facts: Any
    ) -> None:
        """Record what went wrong, of a budget nothing: it waits."""
        if stage == "budget":
            return
        row = self._row(window)
        before = list(
            self.ledger.events(types=[ev.REFLECTION_FAILED], session_id=window.session_id)
        )
        client = self._client(str(window.facts.get("agent") or ""))
        made = events_of.failed(row, self.backend.name, stage, message, usage=usage, client=client)
        event_id = identity(ev.REFLECTION_FAILED, MODE, window.event_id, len(before))
        data = {**made.data, MODE: window.event_id, **facts}
        self.ledger.append(
            [replace(made, event_id=event_id, data=data, target_id=None, reflection_id=None)]
        )

    def _row(self, window: Event) -> WindowRow:
        (row,) = (
            row for row in self.ledger.windows(window.session_id) if row.event_id == window.event_id
        )
        return row

    def _refuse(self, window: Event, answer: Event, fault: str) -> str:
        """Record that an answer is none; return why."""
        ended = str(answer.meta.get("stop_reason") or "")
        why = (
            fault
            if ended in ("", "end_turn", "stop_sequence")
            else (f"{fault} (stop_reason {ended})")
        )
        self._fail(window, "parse", why, parser=PARSER_VERSION, reflection=answer.reflection_id)
        return f"no answer: {why}"

    def _read(self, window: Event, answer: Event) -> str:
        if answer.data is None:
            return "the answer was redacted before it was read"
        parsed = read_answer(answer.data)
        if fault := self._fault(answer, parsed):
            return self._refuse(window, answer, fault)
        rows = {row.name: row for row in self.ledger.rows()}
        advice = [row.text for row in rows.values() if row.status != "removed"]
        try:
            messages = list(own_messages(window))
        except (OSError, UnknownTranscript) as error:
            return str(error)
        found = grounds(parsed.tags, messages, (), advice, self.trusted)
        more = {"mode": MODE} | learned_in(answer.data, messages, advice)
        (completed,) = events_of.completed(
            window, answer.reflection_id or "", parsed, answer, {}, [], found, more
        )
        asked = answer.data["asked"]
        relevant = (tag for tag in parsed.tags if tag.relevant)
        given = [
            _checked(tag, found[tag.index], rows, asked, is_sure=tag.sure in self.trusted)
            for tag in relevant
        ]
        self.ledger.append(_reading(self.ledger, completed, given, counts=self.counts))
        return ""

    def _fault(self, answer: Event, parsed: Parsed) -> str:
        """Return why this is no answer to what was asked, "" for an answer."""
        data = answer.facts
        if answer.meta.get("stop_reason") == "refusal":
            return "the model declined to answer"
        if not data["answer"].strip():
            return "the answer is empty"
        fault = fault_of(parsed, data["asked"])
        return fault or (
            fault_of_proposals(data["answer"], data["asked"]) if data.get("learns") else ""
        )


def _reading(
    ledger: Ledger, completed: NewEvent, given: Sequence[Mapping[str, Any]], *, counts: bool
) -> list[NewEvent]:
    """Return the events of an answer that was read, and the tags that count where
    `checked_counts` says so.
    """
    counted = set[str]()
    if counts:
        rows = {row.name for row in ledger.rows() if row.counts}
        tags = ledger.events(types=[ev.BULLET_TAGGED], session_id=completed.session_id)
        said = {tag.facts.get("name") for tag in tags if _counts(ledger, tag)}
        counted = {one["name"] for one in given if one["disposition"] == "checked"} & rows - said
    kept = ("actor", "occurred_at", "session_id", "reflection_id")
    about: Any = {name: getattr(completed, name) for name in kept}
    events = [completed]
    for one in given:
        is_counted = one["disposition"] == "checked" and one["name"] in counted
        data = {**one, "disposition": "counted"} if is_counted else one
        ids, target = (completed.reflection_id or "", one["index"]), completed.target_id
        events.append(
            NewEvent(
                ev.BULLET_CHECKED,
                identity(ev.BULLET_CHECKED, *ids),
                data,
                target_id=target,
                **about,
            )
        )
        if is_counted:
            events.append(
                NewEvent(ev.BULLET_TAGGED, identity(ev.BULLET_TAGGED, *ids), data, **about)
            )
    return events


def _counts(ledger: Ledger, tag: Event) -> bool:
    done = identity(ev.REFLECTION_COMPLETED, tag.reflection_id or "")
    return tag.facts.get("disposition") == "counted" and not ledger.retracted(tag.event_id, done)


def recount(ledger: Ledger, *, counts: bool, session_id: str | None = None) -> int:
    """Read the recorded answers again where the setting `checked_counts` counts other ones than
    then; return how many.

    The playbook's lock must be held. Raises LedgerError.
    """
    changed = 0
    for old in list(ledger.events(types=[ev.REFLECTION_COMPLETED], session_id=session_id)):
        if old.facts.get("mode") != MODE or ledger.retracted(old.event_id):
            continue
        found = ledger.events(
            types=[ev.BULLET_CHECKED], after=old.position, session_id=old.session_id
        )
        given = [one.facts for one in found if one.reflection_id == old.reflection_id]
        if (counted := any(one["disposition"] == "counted" for one in given)) and counts:
            continue
        fresh = [
            {**one, "disposition": "checked"} if one["disposition"] == "counted" else one
            for one in given
        ]
        of = _recounted(old)
        facts = (old.facts, old.actor, old.occurred_at, old.session_id, of, old.target_id)
        completed = NewEvent(ev.REFLECTION_COMPLETED, identity(ev.REFLECTION_COMPLETED, of), *facts)
        events = _reading(ledger, completed, fresh, counts=counts)
        if counted or any(one.type == ev.BULLET_TAGGED for one in events):
            out = events_of.retraction(old, "read again: checked_counts was changed", "reparse")
            ledger.append([out, *events])
            changed += 1
    return changed


def _checked(
    tag: ParsedTag,
    ground: Ground,
    rows: Mapping[str, BulletRow],
    asked: Collection[str],
    *,
    is_sure: bool,
) -> dict[str, Any]:
    """Return what becomes of one answer, as its event has it."""
    fault, followed = ground.fault, tag.followed
    if tag.malformed or tag.name is None or tag.name not in rows:
        fault = "malformed" if tag.malformed or tag.name is None else "unknown_bullet"
    elif tag.name not in asked:
        fault = "not_asked"
    elif ground.words == "playbook":
        fault = "own_words"
    elif not ground.words:
        fault = "no_quote" if tag.turn is None or len(tag.quote) < LEAST_QUOTE else "misquoted"
    elif tag.tag not in ("helpful", "harmful"):
        fault = "neutral"
    if fault in NOTHING or not is_sure or ground.words not in _SHOW:
        followed = None
    data = {"index": tag.index, "name": tag.name, "tag": tag.tag, "disposition": fault or "checked"}
    return data | ({"followed": followed} if followed else {})


def fault_of_proposals(answer: str, names: Collection[str]) -> str:
    """Return why an answer does not say what is missing, "" where it does: its proposals are no
    list of objects, or one takes the place of a bullet that is not among these.
    """
    proposals = (find_answer(answer).value or {}).get("proposals")
    if proposals is None:  # a model that proposes nothing leaves them out
        return ""
    if not isinstance(proposals, list):
        return f"proposals is not a list: {brief(proposals)}"
    for index, entry in enumerate(proposals):
        if not isinstance(entry, Mapping):
            return f"proposal {index}: the entry is not an object: {brief(entry)}"
        name = entry.get("name")
        if entry.get("kind") == "supersede" and not (
            isinstance(name, str) and _bare(name) in names
        ):
            return f"proposal {index}: {brief(name)} was not shown"
    return ""


def _bare(name: str) -> str:
    """Return a name without what models dress it in."""
    return name.strip("[] ")


def learned_in(
    data: Mapping[str, Any], messages: Iterable[Message], advice: Collection[str]
) -> dict[str, Any]:
    """Return the proposals of an answer, as the event of its reading has them; `messages` as for
    `grounds`.
    """
    found = (
        (find_answer(data["answer"]).value or {}).get("proposals") if data.get("learns") else None
    )
    read = [
        one
        for one in map(_proposed, found[:MOST_PROPOSED] if isinstance(found, list) else ())
        if one
    ]
    if not read:
        return {}
    quoted = [
        ParsedTag(n, None, None, turn=one["turn"], quote=one["quote"]) for n, one in enumerate(read)
    ]
    rest = grounds(quoted, messages, (), advice, ())
    said = ((one, rest[number].words) for number, one in enumerate(read))
    proposals = [one | {"words": words} for one, words in said if words not in ("", "playbook")]
    return {"proposals": proposals} if proposals else {}


def _proposed(entry: object) -> dict[str, Any] | None:
    """Return one proposal, None where it cannot be understood."""
    if not isinstance(entry, Mapping):
        return None
    kind, section, name, turn = map(entry.get, ("kind", "section", "name", "turn"))
    text, why, words = (
        value if isinstance(value := entry.get(key), str) else ""
        for key in ("text", "why", "quote")
    )
    is_whole = text.strip() and len(text) <= MOST_TEXT and section in SECTIONS and words.strip()
    if not is_whole or type(turn) is not int or kind not in ("add", "supersede"):
        return None
    if kind == "supersede" and not isinstance(name, str):
        return None
    of = _bare(str(name)) if kind == "supersede" else None
    said = {
        "text": quote(text, MOST_TEXT),
        "why": quote(why, MOST_TEXT),
        "quote": quote(words, MAX_QUOTE),
    }
    return {"kind": kind, "name": of, "section": section, "turn": turn, **said}
