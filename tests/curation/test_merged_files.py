"""Merged bullets and playbook.json: an older file never brings a source back to life, and nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.curation.erasure import brought_back
from reflector.events import event as ev
from reflector.events.event import NewEvent
from tests.curation.test_sharing import Clone, first, second
from tests.ledger.events import added, merged
from tests.road.agent import Agent

__all__ = ["first", "second"]

SOURCES = {"pat-001": "Write the test first.", "pat-002": "Run the tests."}


def append(agent: Agent, *events: NewEvent) -> None:
    """Append by the ledger, and write the file."""
    with agent.open_ledger() as ledger:
        ledger.append(events)
    agent.call("drain")


def rows(agent: Agent) -> list[str]:
    """Each bullet that there was: its name, what became of it, and its counters."""
    return [f"{b['name']} {b['status']} {b['helpful']}/{b['harmful']}" for b in agent.json("list", "--all")]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """Two bullets that sessions cited, merged into a third; the file as it was before is kept beside it."""
    agent = Agent.in_folder(tmp_path)
    agent.write_playbook({})
    append(agent, *(added(name, text) for name, text in SOURCES.items()))
    for number, name in enumerate(SOURCES):
        agent.counted(name, id=f"s-{number}")
    (tmp_path / "before.json").write_bytes(agent.playbook.read_bytes())
    append(agent, merged("pat-003", *SOURCES, text="Write the test first, and run it."))
    return agent


MERGED = ["pat-001 merged 1/0", "pat-002 merged 1/0", "pat-003 live 2/0"]


#: What a person makes of the file, from that before the merge and that after it, and the bullets after that.
EDITS: dict[str, tuple[Callable[[str, str], str], list[str]]] = {
    "the file as it is": (lambda _, after: after, MERGED),
    "an older file": (lambda before, _: before, MERGED),
    "an older file with a source in other words": (
        lambda before, _: before.replace("Run the tests.", "Run all the tests."),
        [*MERGED, "pat-004 live 0/0"],
    ),
    "the sources in place of the merged bullet": (
        lambda before, after: json.dumps({**json.loads(after), "sections": json.loads(before)["sections"]}),
        ["pat-001 live 1/0", "pat-002 live 1/0", "pat-003 removed 0/0"],
    ),
    "the sources beside the merged bullet": (
        lambda before, after: after.replace('": [\n      {', f'": [{_entries(before)},\n      {{', 1),
        [*MERGED, "pat-004 live 0/0", "pat-005 live 0/0"],
    ),
}


def _entries(file: str) -> str:
    (there,) = filter(None, json.loads(file)["sections"].values())
    return ", ".join(map(json.dumps, there))


@pytest.mark.parametrize("edit", EDITS)
def test_sources_in_the_file_never_count_twice(agent: Agent, tmp_path: Path, edit: str) -> None:
    makes, wanted = EDITS[edit]
    after = agent.playbook.read_text("utf-8")
    agent.playbook.write_text(makes((tmp_path / "before.json").read_text("utf-8"), after), "utf-8")
    agent.call("drain")
    assert rows(agent) == wanted
    assert (agent.events()[-1]["type"] == ev.BULLET_UNMERGED) == ("pat-003 removed 0/0" in wanted)
    assert (agent.playbook.read_text("utf-8") == after) == (wanted == MERGED)


def test_a_clone_that_gets_the_merge_by_git_and_then_the_ledger_counts_what_the_other_one_counts(
    first: Clone, second: Clone, tmp_path: Path
) -> None:
    first.call("add", "pat", "Write the test first.")
    first.share("Two bullets")
    second.pull("--no-rebase")
    second.cites("pat-001", "s-2")
    first.cites("pat-001", "s-1")
    append(first, merged("pat-003", "pat-001", "pat-002", text="Write the test first, and run the tests."))
    first.share("Merged them")
    second.pull("--no-rebase")
    second.cites("pat-003", "s-3")
    for one, other in ((first, second), (second, first)):
        (tmp_path / "history.ndjson").write_text(one.call("export", "--format", "ndjson").out, "utf-8")
        other.call("import", tmp_path / "history.ndjson")
    wanted = ["pat-001 merged 2/0", "pat-002 merged 0/0", "pat-003 live 3/0"]
    assert rows(first) == wanted
    assert rows(second) == wanted


def test_the_erased_text_of_a_merged_bullet_is_known_again_by_its_hash(agent: Agent) -> None:
    with agent.open_ledger() as ledger:
        (event,) = ledger.events(types=[ev.BULLET_MERGED])
        assert event.data is not None
        ledger.redact(event.event_id, reason="a secret", actor="human")
        texts = {"pat-003": event.data["text"]}
        assert brought_back(ledger, ledger.head().position, texts) == {"pat-003"}
        assert brought_back(ledger, ledger.head().position, {"pat-003": "Another text."}) == set()
    assert rows(agent) == MERGED
