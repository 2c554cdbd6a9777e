"""What a model or a transcript wrote is asked for on both engines, whatever characters it holds."""

from __future__ import annotations

import pytest

from reflector.audit.blame import blame
from reflector.audit.citations import citations, orphans
from reflector.audit.doubles import double_counts
from reflector.audit.stats import stats
from reflector.events import event as ev
from reflector.ledger.store import Ledger
from tests.ledger.events import about, added, reflected, window


@pytest.mark.parametrize("text", ["a\0b", "\\u0000", "\ud7ff\ue000", '"]}', "\x1b[31m"])
def test_every_question_is_answered_beside_it(ledger: Ledger, text: str) -> None:
    recorded = window(1, "s1")
    answered = about(ev.REFLECTION_ANSWERED, recorded, answer=text, mode=text, model="m", template_sha256="t")
    ledger.append([added("pat-001"), recorded, answered, *reflected("r1", recorded, ("pat-001", "helpful"))])
    assert stats(ledger).whole.helpful == 1
    assert "helpful" in [step.tag for step in blame(ledger, "pat-001")]
    assert [one.uncited for one in citations(ledger)] == [1]
    assert orphans(ledger).tags == ()
    assert double_counts(ledger).totals["pat-001"]["as_applied"] == (1, 0)
