"""What a report shows of its last days, for the lines that the command prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from reflector.audit.standing import Standing, verdicts_in
from reflector.events import event as ev
from reflector.events.registry import WINDOW_TYPES
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.audit.difference import Changed
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger


class Most(NamedTuple):
    """The rule that most verdicts call helpful or harmful, and how many do."""

    name: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What came between two moments.

    begins, ends  ISO 8601
    helped, harmed  verdicts that count
    added  new rules
    questions  to judges; `cost` in USD of those whose price is known
    """

    begins: str
    ends: str
    sessions: int
    helped: int
    harmed: int
    added: int
    most_helped: Most | None
    most_harmed: Most | None
    questions: int
    cost: Decimal


def summary_of(
    ledger: Ledger, then: Past, since: str, first: int, changed: Sequence[Changed]
) -> Summary:
    """Return what came after a position, up to the moment `then`.

    changed  the rules that differ between both

    Raises:
        LedgerError: the ledger cannot be read.
    """
    last = then.position
    times = {event.position: event.recorded_at for event in ledger.at([first + 1, last])}
    windows = ledger.events(types=WINDOW_TYPES, after=first, upto=last)
    answers = ledger.events(types=[ev.REFLECTION_ANSWERED], after=first, upto=last)
    spent = [spent_on(event.meta, str(event.facts.get("model") or "")) for event in answers]
    asked = [answer for answer in spent if answer.tokens]
    with ledger.asking() as sql:
        verdicts = [verdict for verdict in verdicts_in(sql, last) if verdict.tag]
    standing = Standing(then)
    # An equal verdict from before the first position may count in place of a later one.
    standing_ones = [verdict for verdict in verdicts if standing.stands(verdict) is None]
    counted = [verdict for verdict in standing_ones if verdict.position > first]
    helped = Counter(verdict.name for verdict in counted if verdict.tag > 0)
    harmed = Counter(verdict.name for verdict in counted if verdict.tag < 0)
    return Summary(
        begins=since if since[:2] == "20" else times.get(first + 1, ""),
        ends=times.get(last, ""),
        sessions=len({event.session_id or event.event_id for event in windows}),
        helped=helped.total(),
        harmed=harmed.total(),
        added=sum(rule.change == "added" for rule in changed),
        most_helped=_most(then, helped),
        most_harmed=_most(then, harmed),
        questions=len(asked),
        cost=sum((answer.cost for answer in asked), Decimal(0)),
    )


def _most(then: Past, counts: Counter[str]) -> Most | None:
    for name, count in counts.most_common(1):
        row = then.row(name)
        return Most(name, row.text if row is not None else "", count)
    return None
