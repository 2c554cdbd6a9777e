"""What judged sessions show of each line of advice: relevant, followed or broken, helped or harmful, or not seen.

Invariant: a session is counted once for a line, by the last word on it. Nothing counts that rests on no quote, or whose
window, reading or single answer was retracted. A line is called followed, broken, helpful or harmful only where the
evidence is what `prune` asks for; "not seen" is a count and no result. Intervals take the judge at its word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from reflector.events import event as ev
from reflector.events.event import first_moment
from reflector.events.state import Data
from reflector.ledger.as_of import Past
from reflector.playbook.bullet import context_tokens
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook.evidence import HARMS, against, interval
from reflector.prices import spent_on
from reflector.reflection.checking import MODE, NOTHING

if TYPE_CHECKING:
    from reflector.ledger.rows import BulletRow
    from reflector.ledger.store import Ledger

TOO_FEW: Final = "too few to tell"


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
        """Return what these answers show."""
        yes = sum(answers)
        no = len(answers) - yes
        return cls(yes, no, *interval(yes, no), round(against(min(yes, no), max(yes, no)), 1))

    def words(self, yes: str, no: str) -> str:
        """Return the result in words, "" where there are too few answers for one."""
        most = max(self.yes, self.no)
        is_result = self.evidence >= HARMS
        return f"{yes if self.yes > self.no else no} {most} of {self.yes + self.no}" if is_result else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLine:
    """One bullet of the playbook, or a watched line of a file.

    status    live or watched; `file` is where a watched one was found, None for another
    sessions  whose judge was asked about it; `left_out` had no room for it
    relevant  where it came up, and `unseen` where nothing of it was seen in what was shown
    followed  yes or no, and `helped`: yes for helpful, no for harmful
    earlier   how many sessions were judged when it was worded otherwise
    dropped   answers without evidence
    tokens    of context at each start, about
    result    in words; TOO_FEW where nothing can be said
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


@dataclass(frozen=True, slots=True)
class Checked:
    """What checks found.

    alike     lines that say the same or the opposite
    sessions  that were judged by so many `requests`, which took these `tokens`; `cost` in USD is of those whose price
              is known, `unpriced` how many others there are
    """

    lines: tuple[CheckedLine, ...]
    alike: tuple[Pair, ...] = ()
    sessions: int = 0
    requests: int = 0
    tokens: int = 0
    cost: str = "0"
    unpriced: int = 0


@dataclass(slots=True)
class _Tally:
    asked: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    relevant: set[str] = field(default_factory=set)
    followed: dict[str, bool] = field(default_factory=dict)
    helped: dict[str, bool] = field(default_factory=dict)
    earlier: set[str] = field(default_factory=set)
    dropped: int = 0


def checked(ledger: Ledger, past: Past | None = None, names: Collection[str] | None = None) -> Checked:
    """Return what checks found of each live and watched bullet, or of these, now or then. Raises LedgerError."""
    then, upto = past or Past(ledger), past.position if past is not None else None
    book = then.entries
    rows = [row for row in then.rows() if row.status in ("live", "watched") and (names is None or row.name in names)]
    tallies: dict[str, _Tally] = defaultdict(_Tally)
    windows, requests, spent, price, unpriced = dict[str, str](), 0, 0, Decimal(0), 0
    heirs = {name: {name, *then.heirs(name)} for name in book}
    for event in ledger.events(types=[ev.REFLECTION_ANSWERED], upto=upto):
        data = event.data or {}
        if data.get("mode") != MODE:
            continue
        took = spent_on(event.meta, str(data.get("model")))
        requests, spent, unpriced = requests + 1, spent + took.tokens, unpriced + took.unpriced
        price += took.cost
        session = event.session_id or event.target_id or ""
        done = ev.identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if not (then.is_active(event.target_id) and then.is_active(done)):
            continue
        windows[event.event_id] = session
        for part in ("asked", "unasked"):
            for name in data.get(part, ()):
                for one in heirs.get(name, ()):
                    (tallies[one].asked if part == "asked" else tallies[one].left).add(session)
    revised = ledger.events(types=[ev.BULLET_REVISED], upto=upto)
    reworded = {str((one.data or {}).get("name")): one.position for one in revised}
    answers = ledger.events(types=[ev.BULLET_CHECKED], upto=upto)
    for event in sorted(answers, key=lambda one: first_moment(one.meta, (one.recorded_at, "", one.position))):
        data, session = event.data or {}, event.session_id or event.target_id or ""
        done = ev.identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if not all(map(then.is_active, (event.event_id, event.target_id, done))):
            continue
        for one in heirs.get(str(data.get("name")), ()):
            _take(tallies[one], data, session)
            if event.position < reworded.get(one, 0):
                tallies[one].earlier.add(session)
    files = {str(data["name"]): str(data.get("origin")) for one in ledger.events(types=[ev.BULLET_ADDED], upto=upto)
             if (data := one.data or {}).get("watched")}  # fmt: skip
    lines = tuple(_line(row, tallies[row.name], files) for row in rows)
    alike = tuple(duplicates(row.bullet for row in rows))
    return Checked(lines, alike, len(set(windows.values())), requests, spent, str(price), unpriced)


def _take(tally: _Tally, data: Data, session: str) -> None:
    if data.get("disposition") in NOTHING:
        tally.dropped += 1
        return
    tally.relevant.add(session)
    if data.get("followed") in ("yes", "no"):
        tally.followed[session] = data["followed"] == "yes"
    if data.get("disposition") in ("checked", "counted"):
        tally.helped[session] = data.get("tag") == "helpful"


def _line(row: BulletRow, tally: _Tally, files: Mapping[str, str]) -> CheckedLine:
    followed, helped = Answered.of(tally.followed.values()), Answered.of(tally.helped.values())
    asked, tokens = len(tally.asked | tally.relevant), context_tokens(row.text)
    found = [followed.words("followed", "not followed"), helped.words("helped", "harmful")]
    result = "; ".join(filter(None, found)) or TOO_FEW
    if not tally.relevant:
        result = f"not seen in {asked} session{'s' if asked > 1 else ''}" if asked else "not asked about"
    return CheckedLine(
        name=row.name,
        section=row.section,
        text=row.text,
        status=row.status,
        file=files.get(row.name),
        sessions=asked,
        left_out=len(tally.left - tally.asked),
        relevant=len(tally.relevant),
        unseen=asked - len(tally.relevant),
        followed=followed,
        helped=helped,
        earlier=len(tally.earlier),
        dropped=tally.dropped,
        tokens=tokens,
        result=result,
    )
