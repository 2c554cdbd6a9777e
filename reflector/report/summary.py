"""The changes between two moments, in the lines that the command prints."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from reflector.audit.dates import period_of
from reflector.audit.standing import Standing, verdicts_in
from reflector.events import event as ev
from reflector.events.event import written
from reflector.events.registry import WINDOW_TYPES
from reflector.prices import spent_on

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger


class Summary(NamedTuple):
    """The sessions, verdicts and questions between two moments.

    begins, ends    ISO 8601
    helped, harmed  the number of sessions whose verdict on a rule counts, by the rule's name
    questions       the number of questions to judges
    cost            USD, of the questions with a known price
    """

    begins: str
    ends: str
    sessions: int
    helped: Counter[str]
    harmed: Counter[str]
    questions: int
    cost: Decimal


def summary_of(ledger: Ledger, then: Past, typed_begin: str, first: int) -> Summary:
    """Return the summary of the events after a position, up to a moment.

    typed_begin  the moment that names the position: a time, a position or a session

    Raises:
        LedgerError: the ledger cannot be read.
    """
    last = then.position
    times = {event.position: event.recorded_at for event in ledger.at([first + 1, last])}
    ends = times.get(last, "")
    period = period_of(typed_begin)
    windows = ledger.events(types=WINDOW_TYPES, after=first, upto=last)
    questions, cost = _asked(ledger, first, last)
    return Summary(
        begins=written(period.first) if period else times.get(first + 1, ends),
        ends=ends,
        sessions=len({event.session_id or event.event_id for event in windows}),
        helped=_verdicts(ledger, then, first, 1),
        harmed=_verdicts(ledger, then, first, -1),
        questions=questions,
        cost=cost,
    )


def _asked(ledger: Ledger, first: int, last: int) -> tuple[int, Decimal]:
    """Return the number of questions that used tokens, and their cost."""
    questions = 0
    cost = Decimal(0)
    for answer in ledger.events(types=[ev.REFLECTION_ANSWERED], after=first, upto=last):
        spent = spent_on(answer.meta)
        questions += spent.tokens > 0
        cost += spent.cost
    return questions, cost


def _verdicts(ledger: Ledger, then: Past, first: int, tag: int) -> Counter[str]:
    """Return the number of sessions by rule whose verdict of this kind counts.

    An equal verdict from before the first position may count instead of a later one.
    """
    standing = Standing(then)
    with ledger.asking() as sql:
        verdicts = verdicts_in(sql, then.position)
    counted = [v for v in verdicts if v.tag == tag and standing.why_uncounted(v) is None]
    votes = {(v.name, v.session_id or v.position) for v in counted if v.position > first}
    return Counter(name for name, _ in votes)
