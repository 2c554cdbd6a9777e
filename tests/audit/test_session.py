"""A session's story: the same states as the table of windows, and what was then as of a moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reflector.audit.session import session_story
from reflector.audit.targets import UnknownSession
from reflector.events import event as ev
from reflector.events.event import identity
from reflector.ledger.store import Ledger
from tests.ledger.events import about, added, reflected, window


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    """One session with a window in every state."""
    windows = [window(number, "s-1") for number in range(6)]
    said = {"cited": ["pat-001"], "said": [{"name": "pat-001", "why": "moved"}]}
    windows[2] = replace(windows[2], data={**windows[2].data, **said})
    ledger.append([added(), *windows])
    ledger.append([about(ev.REFLECTION_ANSWERED, windows[1], 1, backend="rules")])
    ledger.append(reflected("r2", windows[2], ("pat-001", "helpful"), ("pat-001", "neutral", "neutral")))
    ledger.append([about(ev.REFLECTION_SKIPPED, windows[3], reason="the window cites nothing")])
    ledger.append([about(ev.REFLECTION_FAILED, windows[4], 1, stage="api", message="busy")])
    ledger.append([about(ev.REFLECTION_FAILED, windows[5], 1, stage="given up", message="why", final=True)])
    return ledger


def test_each_window_is_told_in_the_state_that_the_table_has(lived: Ledger) -> None:
    story = session_story(lived, "s-")
    told = [(w.position, w.state, w.attempts, w.changed_at) for w in story.windows]
    assert told == [(w.position, w.state, w.attempts, w.changed_at) for w in lived.windows("s-1")]
    assert {state for _, state, _, _ in told} == {"pending", "answered", "completed", "skipped", "failed", "given_up"}
    assert story.windows[3].gate == "the window cites nothing"
    assert story.windows[4].failures == ["api: busy"]
    assert [w.said_wrong for w in story.windows[1:3]] == [{}, {"pat-001": "moved"}]


def test_tokens_and_cost_are_those_of_the_answers(lived: Ledger) -> None:
    plain, meta = about(ev.REFLECTION_ANSWERED, window(0, "s-1")), {"input_tokens": 1_000_000, "output_tokens": 0}
    for model in ("claude-sonnet-5-5", "unheard-of"):
        data = {"backend": "anthropic", "model": model, "answer": "x"}
        lived.append([replace(plain, event_id=identity(model), data=data, meta=meta, reflection_id="r9")])
    spent = session_story(lived, "s-1")
    assert (spent.tokens, str(spent.cost_usd), spent.unpriced) == (2_000_000, "2.000000", 1)


def test_an_unknown_session_is_told_with_what_it_could_be(lived: Ledger) -> None:
    lived.append([window(9, "s-2")])
    with pytest.raises(UnknownSession, match="it could be s-1, s-2"):
        session_story(lived, "s")
    assert session_story(lived, "s-2").windows[0].state == "pending"
