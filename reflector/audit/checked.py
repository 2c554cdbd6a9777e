"""The results of judged sessions for each line of advice: relevant, followed, broken, helpful,
harmful or not seen.

Invariant: a session counts once for a line, by the last finding about the line. A finding counts
only if it has a quote, and if its window, its reading and its answer are not retracted. A question
without an answer counts as asked and paid for, but never as judged.

A line of a file is judged by the sessions that started with it. Sessions that started without it
have their own column, and sessions for which this is unknown are in neither. A line is called
followed, broken, helpful or harmful only with the evidence that `prune` requires. It is not called
harmful if help that the judge did not find could explain the result. "Not seen" is a count, not a
result. Intervals assume that the judge is right.

`check`, `list` and the report use this module.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from reflector.events.event import (
    BULLET_ADDED,
    BULLET_CHECKED,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    Event,
    completion_id,
)
from reflector.events.sessions import quoted_in
from reflector.ledger.answers import Group
from reflector.ledger.as_of import Past
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook.evidence import HARMS, FindingRates, Votes
from reflector.playbook_files.births import Births, LineState
from reflector.playbook_files.watching import Line
from reflector.reflection.checking import (
    MODE,
    NOTHING,
    is_sound_reading,
    readings,
    session_starts,
    verdicts_in,
)
from reflector.text.phrases import counted
from reflector.text.words import context_tokens

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.playbook.entry import BulletRow

TOO_FEW = "too few to tell"
FOLLOWED_BEFORE = "followed before the rule existed"
#: A share is high if it has at least this many sessions and at least this share of yes.
_LEAST_SESSIONS = 5
_HIGH_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Answered:
    """The numbers of sessions in which the answer to a question was yes, and in which it was no.

    share      the share of yes; null without an answer. The share of helpful sessions is corrected
               for the cases that the judge misses, if these were measured
    low        the lower end of the share's 90 % interval, corrected in the same way
    high       the upper end of this interval
    evidence   the factor by which these answers are more likely than with equal chances of yes and
               no; a factor of at least 50 gives a result
    """

    yes: int
    no: int
    share: float | None
    low: float
    high: float
    evidence: float

    @classmethod
    def of(
        cls,
        answers: Collection[bool],
        undecided: int = 0,
        rates: FindingRates | None = None,
    ) -> Answered:
        """Return the counts of these answers, with their evidence.

        undecided  the number of undecided sessions, for help and harm
        rates      the finding rates of the judge, for help and harm
        """
        yes = sum(answers)
        votes = Votes(yes, len(answers) - yes, undecided, rates)
        evidence = round(max(votes.help, votes.harm), 1)
        return cls(yes, len(answers) - yes, votes.share, *votes.interval, evidence)

    @property
    def is_high(self) -> bool:
        """Return whether there are enough sessions and nearly all answers are yes."""
        number = self.yes + self.no
        return number >= _LEAST_SESSIONS and self.yes >= _HIGH_SHARE * number

    def words(self, yes: str, no: str) -> str:
        """Return the result in words; "" if there are too few answers for a result."""
        if self.share is None or self.evidence < HARMS:
            return ""
        side = f"{yes} {self.yes}" if self.share > 0.5 else f"{no} {self.no}"
        return f"{side} of {self.yes + self.no}"


@dataclass(frozen=True, slots=True)
class QuotedVerdict:
    """A verdict of a judged session.

    verdict  helped, harmed or `not followed`
    quote    the evidence
    at       the time when the verdict was recorded
    """

    verdict: str
    quote: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLine:
    """A rule of the playbook, or a line of a file that `check` watches.

    file      the file of a watched line; None for a rule of the playbook
    sessions  sessions that started with the rule and whose judge was asked about it
    relevant  the sessions in which the rule came up
    followed  whether the agent followed the rule, in the relevant sessions
    helped    yes for helpful, no for harmful, in the relevant sessions
    before    whether the agent followed the rule, in sessions that started without it
    unknown   the number of sessions that may have started with or without the rule and do not count
    dropped   the number of answers without evidence
    tokens    the approximate number of tokens of the rule at each start
    result    the result in words; TOO_FEW without a result
    newest_verdict  the newest verdict with a quote; null without such a verdict
    follows, helps, followed_before  the last answer of each session
    """

    name: str
    text: str
    file: str | None
    sessions: int
    relevant: int
    followed: Answered
    helped: Answered
    before: Answered
    unknown: int
    dropped: int
    tokens: int
    result: str
    newest_verdict: QuotedVerdict | None = None
    follows: Mapping[str, bool] = field(default_factory=dict, repr=False)
    helps: Mapping[str, bool] = field(default_factory=dict, repr=False)
    followed_before: Mapping[str, bool] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings of checks.

    alike     pairs of lines with the same or the opposite meaning
    sessions  the number of judged sessions
    requests  the number of all questions to the judge, which used these `tokens`
    cost      the price in USD of the questions whose price is known
    unpriced  the number of questions without a known price
    """

    lines: tuple[CheckedLine, ...]
    alike: tuple[Pair, ...] = ()
    sessions: int = 0
    requests: int = 0
    tokens: int = 0
    cost: str = "0"
    unpriced: int = 0


def checked_lines(
    ledger: Ledger,
    past: Past | None = None,
    lines: Mapping[str, Line] | None = None,
    births: Births | None = None,
    rates: FindingRates | None = None,
) -> Checked:
    """Return the findings of checks about each live and watched bullet, as of now or of a moment.

    lines   only about these lines, by the names of their bullets
    births  the times since when lines were in force; unknown for other lines
    rates   of the judge, if they were measured

    Raises:
        LedgerError: the ledger cannot be read.
    """
    then = past or Past(ledger)
    upto = past.position if past else None
    tally = _tally_of(ledger, then, upto)
    rows = [row for row in then.rows() if row.status in ("live", "watched")]
    if lines is not None:
        rows = [row for row in rows if row.name in lines]
    columns = {
        row.name: tally.columns(row, (lines or {}).get(row.name), births or Births())
        for row in rows
    }
    return Checked(
        tuple(_line(row, columns[row.name], rates) for row in rows),
        tuple(duplicates(row.bullet for row in rows)),
        len(tally.sessions),
        tally.spent.answers,
        tally.spent.tokens,
        str(tally.spent.cost),
        tally.spent.unpriced,
    )


def _tally_of(ledger: Ledger, then: Past, upto: int | None) -> _Tally:
    """Return the checks of a ledger up to a position."""
    tally = _Tally(ledger, then, upto)
    for event in ledger.events(types=[REFLECTION_ANSWERED], upto=upto):
        tally.take_answer(event)
    findings = ledger.events(types=[BULLET_CHECKED], upto=upto)
    for event in sorted(findings, key=lambda event: event.arrived):
        tally.take_finding(event)
    for event in ledger.events(types=[BULLET_ADDED], upto=upto):
        if event.fact("watched"):
            tally.lines[str(event.facts["name"])].file = str(event.fact("origin"))
    return tally


@dataclass(slots=True)
class _Seen:
    """The observations of checks about one line.

    asked     the sessions whose judge was asked about it
    findings  about it, by arrival
    quotes    of those findings, by the ids of their events
    file      of a watched line
    """

    asked: set[str] = field(default_factory=set)
    findings: list[Event] = field(default_factory=list)
    quotes: dict[str, str] = field(default_factory=dict)
    file: str | None = None

    @property
    def proven(self) -> list[Event]:
        return [event for event in self.findings if event.fact("disposition") not in NOTHING]

    @property
    def followed(self) -> Mapping[str, bool]:
        """Return by session whether it was followed. The last finding replaces earlier ones."""
        return {
            _session_of(event): event.facts["followed"] == "yes"
            for event in self.proven
            if event.fact("followed") in ("yes", "no")
        }

    @property
    def newest_verdict(self) -> QuotedVerdict | None:
        """Return the newest verdict with a quote."""
        for event in reversed(self.proven):
            quote = self.quotes.get(event.event_id)
            if quote and (verdict := next(verdicts_in(event), "")):
                return QuotedVerdict(verdict, quote, event.arrived[0])
        return None

    @property
    def sessions(self) -> Set[str]:
        return self.asked | set(map(_session_of, self.findings))

    def only(self, sessions: Set[str]) -> _Seen:
        """Return the observations in these sessions only."""
        findings = [event for event in self.findings if _session_of(event) in sessions]
        return replace(self, asked=self.asked & sessions, findings=findings)


#: The observations of checks about one line, by its state when the sessions started.
_Columns = Mapping[LineState, _Seen]


class _Tally:
    """The checks of a ledger as of a moment, counted event by event."""

    def __init__(self, ledger: Ledger, then: Past, upto: int | None) -> None:
        self.then = then
        self.lines: dict[str, _Seen] = defaultdict(_Seen)
        self.sessions: set[str] = set()
        self.spent = Group()
        self._starts = session_starts(ledger, upto)
        self._readings = {
            event.event_id: event
            for event in ledger.events(types=[REFLECTION_COMPLETED], upto=upto)
            if event.data is None or event.fact("mode") == MODE
        }

    def take_answer(self, event: Event) -> None:
        """Count the cost of a check's answer, and its lines if it counts."""
        data = event.facts
        if data.get("mode") != MODE:
            return
        self.spent.add_answer(event.meta)
        if not self._counts(event):
            return
        session = _session_of(event)
        self.sessions.add(session)
        for seen in self._lines_of(data.get("asked", ())):
            seen.asked.add(session)

    def take_finding(self, event: Event) -> None:
        """Add the finding of an answer about a line, if the answer counts."""
        reading_id = completion_id(event.reflection_id)
        if all(map(self.then.is_active, (event.event_id, event.target_id, reading_id))):
            reading = self._readings.get(reading_id)
            evidence = quoted_in(reading.facts, event.facts) if reading else {}
            for seen in self._lines_of([str(event.fact("name"))]):
                seen.findings.append(event)
                seen.quotes[event.event_id] = evidence.get("quote", "")

    def columns(self, row: BulletRow, line: Line | None, births: Births) -> _Columns:
        """Return the observations of a line by its state in each session.

        Each session started with a bullet that is not in any file.
        """
        seen = self.lines[row.name]
        if line is None and row.status == "watched":
            line = Line(str(seen.file), 0, row.section, row.text)
        sessions: dict[LineState, set[str]] = {state: set() for state in LineState}
        for session in seen.sessions:
            state = LineState.SINCE
            if line:
                state = births.state_of(line, self._starts.get(session))
            sessions[state].add(session)
        return {state: seen.only(those) for state, those in sessions.items()}

    def _counts(self, answer: Event) -> bool:
        """Return whether an answer's window and one of its readings count."""
        is_read = any(
            self.then.is_active(reading.event_id) and is_sound_reading(answer, reading)
            for reading in readings(answer, self._readings)
        )
        return is_read and self.then.is_active(answer.target_id)

    def _lines_of(self, names: Iterable[str]) -> Iterator[_Seen]:
        """Yield the lines with these names, and the lines into which they were merged."""
        for name in names:
            if name in self.then.entries:
                for line in {name, *self.then.heirs(name)}:
                    yield self.lines[line]


def _session_of(event: Event) -> str:
    return event.session_id or event.target_id or ""


def _line(row: BulletRow, columns: _Columns, rates: FindingRates | None) -> CheckedLine:
    """Return the findings about a line."""
    seen = columns[LineState.SINCE]
    proven = seen.proven
    relevant = {_session_of(event) for event in proven}
    helps: dict[str, bool] = {}
    for event in proven:  # the last finding of a session replaces its earlier ones
        if event.fact("disposition") in ("checked", "counted"):
            helps[_session_of(event)] = event.fact("tag") == "helpful"
    followed = Answered.of(seen.followed.values())
    helped = Answered.of(helps.values(), len(relevant) - len(helps), rates)
    before = Answered.of(columns[LineState.BEFORE].followed.values())
    sessions = len(seen.asked | relevant)
    result = _result(seen, relevant, followed, before, helped)
    if not sessions and any(column.sessions for column in columns.values()):
        result = TOO_FEW
    return CheckedLine(
        name=row.name,
        text=row.text,
        file=seen.file,
        sessions=sessions,
        relevant=len(relevant),
        followed=followed,
        helped=helped,
        before=before,
        unknown=len(columns[LineState.UNKNOWN].asked),
        dropped=len(seen.findings) - len(proven),
        tokens=context_tokens(row.text),
        result=result,
        newest_verdict=seen.newest_verdict,
        follows=seen.followed,
        helps=helps,
        followed_before=columns[LineState.BEFORE].followed,
    )


def _result(
    seen: _Seen,
    relevant: Collection[str],
    followed: Answered,
    before: Answered,
    helped: Answered,
) -> str:
    """Return the findings about a line in words."""
    if relevant:
        words = followed.words("followed", "not followed")
        if followed.is_high and before.is_high:
            words = FOLLOWED_BEFORE
        return "; ".join(filter(None, (words, helped.words("helped", "harmful")))) or TOO_FEW
    if not seen.asked:
        return "not asked about"
    return f"not seen in {counted(len(seen.asked), 'session')}"
