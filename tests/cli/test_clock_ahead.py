"""A clock that was ahead for a day: the ledger stays whole, and the page's way out brings it back
to the right time.
"""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reflector.events.event import written
from tests.road.agent import Agent


@pytest.fixture
def ahead(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent whose clock was a year ahead for its last two events."""
    agent.call("add", "pat", "With the right clock.")
    with monkeypatch.context() as patched:
        later = written(datetime.now(UTC) + timedelta(days=365))
        patched.setattr("reflector.ledger.append.utc_now", lambda: later)
        agent.call("add", "pat", "In a year.")
    agent.call("add", "pat", "With the right clock again.")
    return agent


def test_doctor_names_events_of_the_future(ahead: Agent) -> None:
    assert (
        "if the clock of this machine is correct now: reflector help clock ahead"
        in ahead.call("doctor", code=None).out
    )
    assert "which is in the future; to see why: reflector doctor" in ahead.call("status").out
    assert "If the clock was ahead" in ahead.call("help", "clock", "ahead").out


def test_lost_ledger_returns_with_future_events(ahead: Agent) -> None:
    before = ahead.call("list").out
    for file in ahead.state.glob("ledger.db*"):
        file.unlink()
    assert ahead.call("list").out == before


def test_own_future_events_are_copied(ahead: Agent, tmp_path: Path) -> None:
    head = ahead.call("ledger", "head").out
    assert ahead.call("ledger", "copy", f"sqlite:///{tmp_path}/copy.db").out == head


def test_refused_import_names_the_events_before(ahead: Agent, tmp_path: Path) -> None:
    export = tmp_path / "export.ndjson"
    export.write_text(ahead.call("export", "--format", "ndjson").out)
    other = Agent.bare(tmp_path / "other")
    refused = other.call("import", export, code=1).err
    earlier = re.search(r"`reflector (export --format ndjson --as-of \d+)`", refused)
    assert earlier is not None
    export.write_text(ahead.call(*earlier[1].split()).out)
    other.call("import", export)
    assert "With the right clock." in other.call("list").out


@pytest.mark.slow
def test_way_out_brings_back_the_time(ahead: Agent, tmp_path: Path) -> None:
    texts = sorted(rule["text"] for rule in ahead.json("list"))
    position = (
        next(
            event["position"]
            for event in ahead.events("bullet.added")
            if "In a year." in str(event)
        )
        - 1
    )
    before = tmp_path / "before.ndjson"
    before.write_text(ahead.call("export", "--format", "ndjson", "--as-of", str(position)).out)
    empty = tmp_path / "before"
    empty.mkdir()
    backup = tmp_path / "before.db"
    ahead.call("--project", empty, "import", before)
    ahead.call("--project", empty, "ledger", "backup", backup)
    kept = re.search(
        r"import --rename (\S+)`", ahead.call("ledger", "restore", "--force", backup).err
    )
    assert kept is not None
    ahead.call("import", "--rename", kept[1])
    assert sorted(rule["text"] for rule in ahead.json("list")) == texts
    assert "in the future" not in ahead.call("status").out
    assert ahead.call("verify").out == ""
