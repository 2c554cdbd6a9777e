"""What judged sessions show of each line of advice: relevant, followed or broken, helped or
harmful, or not seen.

Invariant: a session is counted once for a line, by the last word on it. Nothing counts that rests
on no quote, or whose window, reading or single answer was retracted. A question without an answer
counts as asked and paid for, never as judged. A line is called followed, broken, helpful or harmful
only where the evidence is what `prune` asks for; "not seen" is a count and no result. Intervals
take the judge at its word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from reflector.events import event as ev
from reflector.events.event import Event
from reflector.ledger.as_of import Past
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook.evidence import HARMS, against, interval
from reflector.prices import spent_on
from reflector.reflection.checking import MODE, NOTHING, is_sound_reading, readings
from reflector.text.words import context_tokens

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
        return (
            f"{yes if self.yes > self.no else no} {most} of {self.yes + self.no}"
            if is_result
            else ""
        )


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


def checked(
    ledger: Ledger, past: Past | None = None, names: Collection[str] | None = None
) -> Checked:
    """Return what checks found of each live and watched bullet, or of these, now or then. Raises
    LedgerError.
    """
    then, upto = past or Past(ledger), past.position if past is not None else None
    rows = [
        row
        for row in then.rows()
        if row.status in ("live", "watched") and (names is None or row.name in names)
    ]
    asked: dict[str, set[str]] = defaultdict(set)
    left: dict[str, set[str]] = defaultdict(set)
    said: dict[str, list[Event]] = defaultdict(list)
    judged, requests, spent, price, unpriced = set[str](), 0, 0, Decimal(0), 0
    heirs = {name: {name, *then.heirs(name)} for name in then.entries}
    completions = ledger.events(types=[ev.REFLECTION_COMPLETED], upto=upto)
    read = {
        one.event_id: one
        for one in completions
        if one.facts.get("mode") == MODE or one.data is None
    }
    for event in ledger.events(types=[ev.REFLECTION_ANSWERED], upto=upto):
        data = event.facts
        if data.get("mode") != MODE:
            continue
        took = spent_on(event.meta, str(data.get("model")))
        requests, spent, unpriced = requests + 1, spent + took.tokens, unpriced + took.unpriced
        price += took.cost
        stands = any(
            then.is_active(one.event_id) and is_sound_reading(event, one)
            for one in readings(event, read)
        )
        if not (stands and then.is_active(event.target_id)):
            continue
        judged.add(_session(event))
        for part, sessions in (("asked", asked), ("unasked", left)):
            for one in (heir for name in data.get(part, ()) for heir in heirs.get(name, ())):
                sessions[one].add(_session(event))
    revised = ledger.events(types=[ev.BULLET_REVISED], upto=upto)
    reworded = {str(one.facts.get("name")): one.position for one in revised}
    answers = ledger.events(types=[ev.BULLET_CHECKED], upto=upto)
    for event in sorted(answers, key=lambda one: one.arrived):
        done = ev.identity(ev.REFLECTION_COMPLETED, event.reflection_id or "")
        if all(map(then.is_active, (event.event_id, event.target_id, done))):
            for one in heirs.get(str(event.facts.get("name")), ()):
                said[one].append(event)
    added = (one.facts for one in ledger.events(types=[ev.BULLET_ADDED], upto=upto))
    files = {str(one["name"]): str(one.get("origin")) for one in added if one.get("watched")}
    lines = tuple(
        _line(
            row,
            files.get(row.name),
            asked[row.name],
            left[row.name],
            said[row.name],
            reworded.get(row.name, 0),
        )
        for row in rows
    )
    alike = tuple(duplicates(row.bullet for row in rows))
    return Checked(lines, alike, len(judged), requests, spent, str(price), unpriced)


def _session(event: Event) -> str:
    return event.session_id or event.target_id or ""


def _line(
    row: BulletRow,
    file: str | None,
    asked: set[str],
    left: set[str],
    said: Sequence[Event],
    reworded: int,
) -> CheckedLine:
    given = [
        (_session(one), data)
        for one in said
        if (data := one.facts).get("disposition") not in NOTHING
    ]
    relevant = {session for session, _ in given}
    # Of a session's words on it the last one stands.
    follows = {
        session: data["followed"] == "yes"
        for session, data in given
        if data.get("followed") in ("yes", "no")
    }
    helps = {
        session: data.get("tag") == "helpful"
        for session, data in given
        if data.get("disposition") in ("checked", "counted")
    }
    followed, helped = Answered.of(follows.values()), Answered.of(helps.values())
    sessions = len(asked | relevant)
    found = (followed.words("followed", "not followed"), helped.words("helped", "harmful"))
    result = "; ".join(filter(None, found)) or TOO_FEW
    if not relevant:
        result = (
            f"not seen in {sessions} session{'s' if sessions > 1 else ''}"
            if asked
            else "not asked about"
        )
    return CheckedLine(
        name=row.name,
        section=row.section,
        text=row.text,
        status=row.status,
        file=file,
        sessions=sessions,
        left_out=len(left - asked),
        relevant=len(relevant),
        unseen=sessions - len(relevant),
        followed=followed,
        helped=helped,
        earlier=len({_session(one) for one in said if one.position < reworded}),
        dropped=len(said) - len(given),
        tokens=context_tokens(row.text),
        result=result,
    )
