"""What judged sessions show of each line of advice: relevant, followed or broken, helped or
harmful, or not seen.

Invariant: a session is counted once for a line, by the last finding about it. Nothing counts that
rests on no quote, or whose window, reading or single answer was retracted. A question without an
answer counts as asked and paid for, never as judged. A line is called followed, broken, helpful or
harmful only with the evidence that `prune` asks for; "not seen" is a count, not a result. Intervals
assume that the judge is right. `check`, `list` and the report use it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.ledger.as_of import Past
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook.evidence import HARMS, against, share_interval
from reflector.prices import spent_on
from reflector.reflection.checking import MODE, NOTHING, is_sound_reading, readings
from reflector.text.words import context_tokens

if TYPE_CHECKING:
    from reflector.ledger.rows import BulletRow
    from reflector.ledger.store import Ledger

TOO_FEW = "too few to tell"


@dataclass(frozen=True, slots=True)
class Answered:
    """How many sessions answered one question with yes and with no.

    low, high  between which the true share of yes lies in nine of ten cases
    evidence   how much likelier these answers are than at even chances; a result from 50 on
    """

    yes: int
    no: int
    low: float
    high: float
    evidence: float

    @classmethod
    def of(cls, answers: Collection[bool]) -> Answered:
        """Return the counts of these answers, with their evidence."""
        yes = sum(answers)
        no = len(answers) - yes
        return cls(yes, no, *share_interval(yes, no), round(against(min(yes, no), max(yes, no)), 1))

    def words(self, yes: str, no: str) -> str:
        """Return the result in words, "" if there are too few answers for one."""
        if self.evidence < HARMS:
            return ""
        word = yes if self.yes > self.no else no
        return f"{word} {max(self.yes, self.no)} of {self.yes + self.no}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLine:
    """One bullet of the playbook, or a watched line of a file.

    status    live or watched; `file` is the file of a watched one, None for another
    sessions  whose judge was asked about it; `left_out` had no room for it
    relevant  sessions in which it came up; in `unseen` ones nothing of it was shown
    followed  yes or no, and `helped`: yes for helpful, no for harmful
    earlier   how many sessions were judged when it was worded otherwise
    dropped   answers without evidence
    tokens    of context at each start, about
    result    in words; TOO_FEW if there is none
    follows, helps  the last answer of each session: followed, and helpful
    """

    name: str
    section: str
    text: str
    status: str
    file: str | None
    sessions: int
    left_out: int
    relevant: int
    unseen: int
    followed: Answered
    helped: Answered
    earlier: int
    dropped: int
    tokens: int
    result: str
    follows: Mapping[str, bool] = field(default_factory=dict, repr=False)
    helps: Mapping[str, bool] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of checks.

    alike     lines that say the same or the opposite
    sessions  that were judged; `requests` are all questions, which took these `tokens`; `cost` in
              USD is of those whose price is known, `unpriced` how many others there are
    """

    lines: tuple[CheckedLine, ...]
    alike: tuple[Pair, ...] = ()
    sessions: int = 0
    requests: int = 0
    tokens: int = 0
    cost: str = "0"
    unpriced: int = 0


def checked_lines(
    ledger: Ledger, past: Past | None = None, names: Collection[str] | None = None
) -> Checked:
    """Return the findings of checks about each live and watched bullet, or about those with these
    names, as of now or of a moment.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    then = past or Past(ledger)
    upto = past.position if past is not None else None
    tally = _Tally(ledger, then, upto)
    for event in ledger.events(types=[ev.REFLECTION_ANSWERED], upto=upto):
        tally.take_answer(event)
    findings = ledger.events(types=[ev.BULLET_CHECKED], upto=upto)
    for event in sorted(findings, key=lambda event: event.arrived):
        tally.take_finding(event)
    for event in ledger.events(types=[ev.BULLET_REVISED], upto=upto):
        tally.lines[str(event.facts.get("name"))].reworded = event.position
    for event in ledger.events(types=[ev.BULLET_ADDED], upto=upto):
        if event.facts.get("watched"):
            tally.lines[str(event.facts["name"])].file = str(event.facts.get("origin"))
    rows = [row for row in then.rows() if row.status in ("live", "watched")]
    if names is not None:
        rows = [row for row in rows if row.name in names]
    return Checked(
        tuple(_line(row, tally.lines[row.name]) for row in rows),
        tuple(duplicates(row.bullet for row in rows)),
        len(tally.sessions),
        tally.requests,
        tally.tokens,
        str(tally.cost),
        tally.unpriced,
    )


@dataclass(slots=True)
class _Seen:
    """What checks saw of one line.

    asked     the sessions whose judge was asked about it; in `left_out` ones it had no room
    findings  about it, by arrival
    reworded  the position at which its text changed last
    file      of a watched line
    """

    asked: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    findings: list[Event] = field(default_factory=list)
    reworded: int = 0
    file: str | None = None


class _Tally:
    """The checks of a ledger as of a moment, counted event by event."""

    def __init__(self, ledger: Ledger, then: Past, upto: int | None) -> None:
        self.then = then
        self.lines: dict[str, _Seen] = defaultdict(_Seen)
        self.sessions: set[str] = set()
        self.requests = 0
        self.tokens = 0
        self.cost = Decimal(0)
        self.unpriced = 0
        self._readings = {
            event.event_id: event
            for event in ledger.events(types=[ev.REFLECTION_COMPLETED], upto=upto)
            if event.data is None or event.facts.get("mode") == MODE
        }

    def take_answer(self, event: Event) -> None:
        """Count the cost of a check's answer, and its lines if it counts."""
        data = event.facts
        if data.get("mode") != MODE:
            return
        spent = spent_on(event.meta, str(data.get("model")))
        self.requests += 1
        self.tokens += spent.tokens
        self.cost += spent.cost
        self.unpriced += spent.unpriced
        if not self._counts(event):
            return
        session = _session_of(event)
        self.sessions.add(session)
        for seen in self._lines_of(data.get("asked", ())):
            seen.asked.add(session)
        for seen in self._lines_of(data.get("unasked", ())):
            seen.left_out.add(session)

    def take_finding(self, event: Event) -> None:
        """Add what an answer says of a line, if it counts."""
        completion_id = ev.identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if all(map(self.then.is_active, (event.event_id, event.target_id, completion_id))):
            for seen in self._lines_of([str(event.facts.get("name"))]):
                seen.findings.append(event)

    def _counts(self, answer: Event) -> bool:
        """Return whether an answer's window and one of its readings are in the count."""
        is_read = any(
            self.then.is_active(reading.event_id) and is_sound_reading(answer, reading)
            for reading in readings(answer, self._readings)
        )
        return is_read and self.then.is_active(answer.target_id)

    def _lines_of(self, names: Iterable[str]) -> Iterator[_Seen]:
        """Yield the lines with these names, and those into which they were merged."""
        for name in names:
            if name in self.then.entries:
                for line in {name, *self.then.heirs(name)}:
                    yield self.lines[line]


def _session_of(event: Event) -> str:
    return event.session_id or event.target_id or ""


def _line(row: BulletRow, seen: _Seen) -> CheckedLine:
    """Return the findings about a line."""
    proven = [event for event in seen.findings if event.facts.get("disposition") not in NOTHING]
    relevant = {_session_of(event) for event in proven}
    follows: dict[str, bool] = {}
    helps: dict[str, bool] = {}
    for event in proven:  # the last finding of a session replaces its earlier ones
        data = event.facts
        if data.get("followed") in ("yes", "no"):
            follows[_session_of(event)] = data["followed"] == "yes"
        if data.get("disposition") in ("checked", "counted"):
            helps[_session_of(event)] = data.get("tag") == "helpful"
    followed = Answered.of(follows.values())
    helped = Answered.of(helps.values())
    sessions = len(seen.asked | relevant)
    earlier = [event for event in seen.findings if event.position < seen.reworded]
    return CheckedLine(
        name=row.name,
        section=row.section,
        text=row.text,
        status=row.status,
        file=seen.file,
        sessions=sessions,
        left_out=len(seen.left_out - seen.asked),
        relevant=len(relevant),
        unseen=sessions - len(relevant),
        followed=followed,
        helped=helped,
        earlier=len({_session_of(event) for event in earlier}),
        dropped=len(seen.findings) - len(proven),
        tokens=context_tokens(row.text),
        result=_result(seen, relevant, followed, helped),
        follows=follows,
        helps=helps,
    )


def _result(seen: _Seen, relevant: Collection[str], followed: Answered, helped: Answered) -> str:
    """Return the findings about a line in words."""
    if relevant:
        parts = (followed.words("followed", "not followed"), helped.words("helped", "harmful"))
        return "; ".join(filter(None, parts)) or TOO_FEW
    if not seen.asked:
        return "not asked about"
    count = len(seen.asked)
    return f"not seen in {count} session{'s' if count > 1 else ''}"
