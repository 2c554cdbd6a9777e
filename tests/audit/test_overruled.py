"""The verdicts of judges that a person overruled, also on another machine."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from reflector.audit.overruled import overruled_judges
from reflector.events.event import NewEvent
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.reflection.standing import citations, record_verdict
from tests.conftest import Fresh
from tests.exchange.pairs import both_take
from tests.ledger.events import added, reflected, window


@pytest.fixture
def other(fresh: Fresh) -> Iterator[Ledger]:
    """The empty ledger of another machine."""
    with fresh() as url, Ledger.open(url) as ledger:
        yield ledger


def cited() -> NewEvent:
    recorded = window(1, "s1")
    return replace(recorded, data={**(recorded.data or {}), "cited": ["pat-001"]})


def judged(ledger: Ledger, actor: str, tag: str) -> None:
    recorded = cited()
    events = reflected(f"r-{actor}", recorded, ("pat-001", tag), actor=actor)
    ledger.append([added(), recorded, *events])


def decide(ledger: Ledger, verdict: str) -> None:
    """Give a person's verdict."""
    (citation,) = citations(ledger)
    record_verdict(ledger, citation, verdict, "by hand")


@pytest.mark.parametrize(("verdict", "number"), [("harmful", 1), ("helpful", 0)])
def test_merge_overrules_the_other_machines_judge(
    ledger: Ledger, other: Ledger, verdict: str, number: int
) -> None:
    judged(ledger, "anthropic", "helpful")
    judged(other, "rules", "neutral")
    decide(other, verdict)
    both_take(ledger, other)
    for machine in (ledger, other):
        assert sum(overruled_judges(machine, Past(machine)).values()) == number
