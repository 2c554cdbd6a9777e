"""The verdicts that do not count, and why."""

from reflector.audit.dropped import MOST, dropped
from reflector.ledger.store import Ledger
from tests.ledger.events import added, reflected, window


def test_neutral_verdicts_do_not_displace_a_dropped_one(ledger: Ledger) -> None:
    session = window()
    neutral = [("pat-001", "neutral", "unsure")] * MOST
    judged = reflected("r1", session, ("pat-001", "harmful", "unsure"), *neutral)
    ledger.append([added("pat-001"), session, *judged])
    verdicts = [(verdict.tag, verdict.why) for verdict in dropped(ledger, "2000-01-01T00:00:00Z")]
    assert verdicts == [("harmful", "the judge was not sure enough of this verdict")]
