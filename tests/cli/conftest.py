"""Projects to ask questions about."""

import sqlite3
from pathlib import Path

import pytest

from reflector.sessions.intake import Source, take_in
from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project with a bit of everything: counts, neutral tags, removals, and all that can go
    wrong.

    A module's tests share it, so they ask and change nothing.
    """
    folder = tmp_path_factory.mktemp("lived-in")
    agent = Agent.in_folder(folder)
    for number, (name, verdict) in enumerate(
        [("pat-001", "helpful"), ("pat-002", "harmful"), ("pat-001", None)]
    ):
        agent.counted(name, verdict, id=f"s-{number}")
    agent.call("add", "ctx", "The cart is in cart.py.")
    document = agent.playbook.read_text()
    agent.playbook.write_text(
        document.replace('"helpful": 3', '"helpful": 5').replace("The cart is", "It is all")
    )
    agent.call("drain")
    gone = Session("s-gone").cites("pat-001").write(folder / "gone.jsonl")
    with agent.open_ledger() as ledger:
        take_in(ledger, Source(gone, "SessionEnd"))
    gone.unlink()
    (folder / "binary.jsonl").write_bytes(bytes(range(256)))
    agent.hook("SessionEnd", session_id="s-b", transcript_path=str(folder / "binary.jsonl"))
    agent.call("drain", code=1)
    (agent.spool / "broken").mkdir()
    (agent.spool / "broken" / "1-1-1.json").write_bytes(b"{")
    return agent


def tamper(agent: Agent, ledger: Path | None = None) -> None:
    """Change history behind the ledger's back."""
    with sqlite3.connect(ledger or agent.ledger) as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(
            "UPDATE event SET data = replace(data, 'helpful', 'harmful') WHERE "
            "type = 'bullet.tagged'"
        )
    connection.close()
