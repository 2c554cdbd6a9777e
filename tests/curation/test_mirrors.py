"""The playbook in AGENTS.md and files like it: kept in step, edited there, and taken out again to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.bullet import Bullet
from reflector.playbook.marked import find, with_section, without_section
from tests.curation.test_playbook_file import meanwhile
from tests.playbook.test_document import PLAYBOOKS
from tests.road.agent import Agent


@given(
    st.sampled_from([b"# Mine\r\n\r\n- x", b"", b"\n\n", b"# Mine\n"]) | st.binary(max_size=60), PLAYBOOKS, PLAYBOOKS
)
def test_a_section_that_is_written_twice_and_taken_out_leaves_the_file_as_it_was(
    raw: bytes, first: tuple[Bullet, ...], second: tuple[Bullet, ...]
) -> None:
    written = with_section(raw, first)
    assert with_section(written, first) == written
    again = with_section(written, second)
    assert again == with_section(raw, second)
    assert without_section(again) == raw
    there = find(again)
    assert there is not None
    assert not there.is_edited


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project whose AGENTS.md has a line of its owner and the playbook."""
    agent = Agent.in_folder(tmp_path)
    (agent.project / "AGENTS.md").write_bytes(b"# Ours\n\nBe kind.\n")
    agent.call("install", "--mirror", "AGENTS.md")
    return agent


def text(agent: Agent) -> str:
    return (agent.project / "AGENTS.md").read_text("utf-8")


def edit(agent: Agent, old: str, new: str) -> None:
    before = text(agent)
    assert old in before
    (agent.project / "AGENTS.md").write_text(before.replace(old, new), "utf-8")


def test_a_change_of_the_playbook_is_written_and_a_count_is_not(agent: Agent) -> None:
    agent.call("add", "ctx", "The cart is in cart.py.")
    assert "- [ctx-001] The cart is in cart.py." in text(agent)
    before = text(agent)
    agent.counted()
    assert text(agent) == before


def test_an_edit_of_the_section_becomes_events_and_counts_stay(agent: Agent) -> None:
    agent.counted()
    edit(agent, "- [pat-001] Write the failing test first.", "- [pat-001] Write the test first.\n- Read the log too.")
    edit(agent, "- [mis-001] Mocking the database hides broken migrations.\n", "")
    agent.call("drain")
    shown = agent.call("list").out
    assert "Write the test first." in shown
    assert "Read the log too." in shown
    assert "mis-001" not in shown
    assert "[pat-003] Read the log too." in text(agent)
    assert "helpful" in agent.call("blame", "pat-001").out
    count = len(agent.events())
    agent.call("drain")
    assert len(agent.events()) == count


def test_an_edit_that_is_saved_while_the_section_is_written_is_kept_and_taken_in(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(
        monkeypatch, agent.project / "AGENTS.md", lambda: edit(agent, "Keep functions small.", "Keep them small.")
    )
    agent.call("add", "ctx", "The cart is in cart.py.")
    assert "Keep them small." in text(agent)
    agent.call("drain")
    assert "Keep them small." in agent.call("list").out
    assert "The cart is in cart.py." in text(agent)


def test_a_file_that_is_saved_while_its_section_is_taken_out_keeps_both_and_says_so(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, agent.project / "AGENTS.md", lambda: edit(agent, "Be kind.", "Be very kind."))
    assert "AGENTS.md was changed since it was read" in agent.call("uninstall", "--mirror", "AGENTS.md", code=1).err
    assert "Be very kind." in text(agent)
    assert "- [pat-001]" in text(agent)


def test_a_question_takes_an_edit_in_and_leaves_the_file(agent: Agent) -> None:
    edit(agent, "Keep functions small.", "Keep them small.")
    before = text(agent)
    assert "Keep them small." in agent.call("list").out
    assert text(agent) == before
    assert "AGENTS.md: edited" in agent.call("doctor", code=None).out
    agent.call("add", "ctx", "More.")
    assert "[ctx-001] More." in text(agent)
    assert "Keep them small." in text(agent)


def test_an_edit_of_a_text_that_nobody_here_wrote_is_left_and_named(agent: Agent) -> None:
    begin = text(agent).split("reflector:begin ")[1][:12]
    edit(agent, begin, "0" * 12)
    before = text(agent)
    ran = agent.call("add", "ctx", "More.")
    assert "AGENTS.md: its playbook was edited" in ran.err
    assert "reflector install --mirror AGENTS.md" in ran.err
    assert text(agent) == before


def test_a_lost_end_mark_is_named_and_the_file_is_left(agent: Agent) -> None:
    edit(agent, "<!-- reflector:end -->\n", "")
    before = text(agent)
    assert "AGENTS.md: line 5: the mark <!-- reflector:end --> is missing" in agent.call("add", "ctx", "More.").err
    assert text(agent) == before


def test_a_section_that_is_emptied_removes_no_bullet(agent: Agent) -> None:
    start, end = text(agent).index("## Playbook"), text(agent).index("<!-- reflector:end")
    (agent.project / "AGENTS.md").write_text(text(agent)[:start] + text(agent)[end:], "utf-8")
    assert "pat-001" in agent.call("list").out


def test_taking_the_playbook_out_leaves_the_owners_bytes_and_removes_a_file_that_was_made_for_it(agent: Agent) -> None:
    agent.call("uninstall", "--mirror", "AGENTS.md")
    assert text(agent) == "# Ours\n\nBe kind.\n"
    rule = agent.project / ".cursor" / "rules" / "playbook.mdc"
    told = agent.call("install", "--mirror", ".cursor/rules/playbook.mdc").out
    assert ".cursor/rules/playbook.mdc was created and is kept in step with the playbook" in told
    assert "To stop: reflector uninstall --mirror .cursor/rules/playbook.mdc" in told
    assert rule.read_text("utf-8").startswith("---\ndescription: The playbook\nalwaysApply: true\n---\n")
    agent.call("uninstall", "--mirror", ".cursor/rules/playbook.mdc")
    assert not rule.exists()


def test_a_link_is_not_followed_out_of_the_project(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (agent.project / ".github").symlink_to(outside)
    refused = agent.call("install", "--mirror", "../x.md", code=2).err
    assert "'../x.md' is not a file that an agent reads by itself; the files are CLAUDE.md" in refused
    ran = agent.call("install", "--mirror", ".github/copilot-instructions.md", code=2)
    assert ".github is a link" in ran.err
    assert list(outside.iterdir()) == []
