"""From a recorded window to its tags, whatever the backend answers and wherever the process
dies.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.judges.protocol import BackendError
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from reflector.reflection import runner as runner_module
from reflector.reflection.runner import Runner
from reflector.sessions.intake import Source, take_in
from tests.building import Says, add_bullets, tag, tags
from tests.ledger.events import changed
from tests.reading import counters, of_type
from tests.road.sessions import Session

Cites = Callable[..., None]
SECRET = "ghp_" + "Ab3" * 12


@pytest.fixture
def cites(ledger: Ledger, tmp_path: Path) -> Cites:
    """Records one session that cites the bullets, which the playbook has."""
    add_bullets(ledger, "pat-001", "pat-002")

    def record(*names: str, id: str = "s-1") -> None:
        session = Session(id).agent(" ".join(f"As [{name}] says." for name in names))
        take_in(ledger, Source(session.write(tmp_path / f"{id}.jsonl"), "SessionEnd"))

    return record


def test_an_answer_becomes_an_analysis_and_counted_tags(ledger: Ledger, cites: Cites) -> None:
    cites("pat-001", "pat-002")
    says = Says(
        [tags(tag("pat-001", "helpful", "The test failed first."), tag("pat-002", "harmful"))]
    )
    (done,) = Runner(ledger, says).finish_pending()
    assert (done.outcome, done.detail) == ("completed", "pat-001 helpful, pat-002 harmful")
    assert counters(ledger) == {"pat-001": (1, 0), "pat-002": (0, 1)}
    (answered,) = of_type(ledger, ev.REFLECTION_ANSWERED)
    (completed,) = of_type(ledger, ev.REFLECTION_COMPLETED)
    assert (answered.data["model"], answered.data["prompt_sha256"]) == ("model-1", "p" * 64)
    assert answered.meta == {"input_tokens": 7}
    assert completed.data["analysis"] == "It went well."
    assert completed.data["rationales"][0] == {"index": 0, "rationale": "The test failed first."}
    assert says.asked[0].cited == ("pat-001", "pat-002")
    assert Runner(ledger, Says([])).finish_pending() == []


@pytest.mark.parametrize(
    ("entry", "disposition"),
    [
        (tag("pat-001", "helpful"), "counted"),
        (tag("pat-001", "neutral"), "neutral"),
        (tag("pat-009", "helpful"), "unknown_bullet"),
        (tag("mis-001", "helpful"), "retired_bullet"),
        (tag("pat-001", "Helpful"), "unknown_tag"),
        ({"name": "pat-001"}, "malformed"),
        (tag("DROP TABLE", "helpful"), "malformed"),
        (None, "malformed"),
    ],
)
def test_each_tag_has_its_disposition(
    ledger: Ledger, cites: Cites, entry: Any, disposition: str
) -> None:
    add_bullets(ledger, "mis-001")
    ledger.append([changed(ev.BULLET_REMOVED, "mis-001", reason="deleted", into=None)])
    cites("pat-001", "pat-002")
    (done,) = Runner(ledger, Says([tags(entry, tag("pat-002", "helpful"))])).finish_pending()
    assert done.outcome == "completed"
    found = [event.data["disposition"] for event in of_type(ledger, ev.BULLET_TAGGED) if event.data]
    assert found == [disposition, "counted"]
    assert counters(ledger) == {"pat-001": (int(disposition == "counted"), 0), "pat-002": (1, 0)}


def test_any_answer_leaves_a_sound_ledger_without_secrets(ledger: Ledger, cites: Cites) -> None:
    cites("pat-001")
    analysis = f"password={SECRET}" + "\ud800 \x00 \u202e" * 9_000
    Runner(
        ledger, Says([tags(tag("pat-001", "helpful", SECRET), analysis=analysis)])
    ).finish_pending()
    assert counters(ledger)["pat-001"] == (1, 0)
    assert list(verify(ledger)) == []
    assert "Ab3Ab3" not in json.dumps([event.data for event in ledger.events()])


def test_windows_that_cite_are_asked_about_first(ledger: Ledger, cites: Cites) -> None:
    cites(id="s-1")
    cites("pat-001", id="s-2")
    cites("pat-002", id="s-3")
    ordered = Runner(ledger, Says([])).cited_first(ledger.open_windows())
    assert [window.session_id for window in ordered] == ["s-2", "s-3", "s-1"]


@pytest.mark.parametrize(
    ("raised", "stage"),
    [
        (BackendError("529 overloaded", stage="transport", attempts=3), "transport"),
        (OSError(5, "Input/output error"), "transcript"),
        (KeyError("bug"), "backend"),
    ],
)
def test_what_a_backend_raises_is_tried_again(
    ledger: Ledger, cites: Cites, raised: Exception, stage: str
) -> None:
    cites("pat-001")
    runner = Runner(ledger, Says([raised, tags(tag("pat-001", "helpful"))]))
    assert [done.outcome for done in runner.finish_pending()] == ["failed"]
    (failed,) = of_type(ledger, ev.REFLECTION_FAILED)
    assert ((failed.data or {})["stage"], (failed.data or {})["backend"]) == (stage, "scripted")
    assert [done.outcome for done in runner.finish_pending()] == ["waiting"]
    assert [done.outcome for done in runner.finish_pending(retry="all")] == ["completed"]
    assert counters(ledger)["pat-001"] == (1, 0)


def test_a_failed_window_waits_longer_each_time(
    ledger: Ledger, cites: Cites, monkeypatch: pytest.MonkeyPatch
) -> None:
    cites("pat-001")
    says = Says([BackendError("not this one", stage="request")] * 9)
    runner = Runner(ledger, says, max_attempts=3)
    later = timedelta()

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # noqa: ARG003
            return datetime.now(UTC) + later

    monkeypatch.setattr(runner_module, "datetime", Clock)
    asked = []
    for minutes in (0, 0.9, 1.1, 2.1, 3.2, 60, 1000):
        later = timedelta(minutes=minutes)
        runner.finish_pending()
        asked.append(len(says.asked))
    # Each wait begins at the failure before it, which the ledger's own clock dated.
    assert asked == [1, 1, 2, 3, 3, 3, 3]
    assert runner.finish_pending(retry="all")[0].outcome == "failed"


@pytest.mark.parametrize("stage", ["transport", "access"])
def test_outage_is_retried_with_pauses_to_an_hour(ledger: Ledger, cites: Cites, stage: str) -> None:
    cites("pat-001")
    runner = Runner(ledger, Says([BackendError("down", stage=stage)] * 20), max_attempts=2)
    pauses = []
    for _ in range(9):
        (done,) = runner.finish_pending(retry="all")
        (window,) = ledger.open_windows()
        trouble = runner.trouble(window)
        assert (done.again, trouble.attempts) == (True, 0)
        pauses.append(trouble.next_try - datetime.fromisoformat(trouble.last.recorded_at))
    assert pauses == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 8, 16, 32, 60, 60, 60)]


def test_unreadable_answer_is_kept_and_not_asked_again(ledger: Ledger, cites: Cites) -> None:
    cites("pat-001")
    says = Says(["I am sorry, I cannot judge this."])
    runner = Runner(ledger, says)
    assert [runner.finish_pending(retry="all")[0].outcome for _ in range(2)] == ["failed", "failed"]
    (answered,) = of_type(ledger, ev.REFLECTION_ANSWERED)
    assert (answered.data or {})["answer"] == "I am sorry, I cannot judge this."
    assert [e.data["stage"] for e in of_type(ledger, ev.REFLECTION_FAILED) if e.data] == [
        "parse",
        "parse",
    ]
    assert len(says.asked) == 1


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("survived", [ev.REFLECTION_ANSWERED, ev.REFLECTION_COMPLETED])
@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "after the commit"])
def test_killed_runner_resumes_where_it_stopped(
    ledger: Ledger, cites: Cites, monkeypatch: pytest.MonkeyPatch, survived: str, before: bool
) -> None:
    append = ledger.append

    def dying(events: Any) -> Any:
        if events[0].type != survived:
            return append(events)
        if not before:
            append(events)
        raise Killed

    cites("pat-001")
    monkeypatch.setattr(ledger, "append", dying)
    with pytest.raises(Killed):
        Runner(ledger, Says([tags(tag("pat-001", "helpful"))])).finish_pending()
    monkeypatch.undo()
    asks_again = survived == ev.REFLECTION_ANSWERED and before
    says = Says([tags(tag("pat-001", "helpful"))] if asks_again else [])
    Runner(ledger, says).finish_pending()
    assert len(says.asked) == int(asks_again)
    assert counters(ledger)["pat-001"] == (1, 0)
    assert (
        len(of_type(ledger, ev.REFLECTION_ANSWERED))
        == len(of_type(ledger, ev.REFLECTION_COMPLETED))
        == 1
    )


def test_equal_window_and_answer_give_equal_events(tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    found = []
    for _ in range(2):
        with Ledger.open("sqlite://") as ledger:
            add_bullets(ledger, "pat-001")
            take_in(ledger, Source(path, "SessionEnd"))
            Runner(ledger, Says([tags(tag("pat-001", "helpful"))])).finish_pending()
            found.append([(event.event_id, event.data_hash) for event in ledger.events()])
    assert found[0] == found[1]
