"""The playbook in AGENTS.md and files like it: kept in step, edited there, and taken out again
to the byte.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector.changes.apply import apply_changes
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook_files.mirrors import find_section, with_section, without_section
from tests.building import PLAYBOOKS, TOKEN, commit, git, meanwhile
from tests.conftest import first_fast
from tests.road.agent import Agent

_LEFT = "AGENTS.md: reflector could not read this file's copy of the playbook: "


@given(
    st.sampled_from([b"# Mine\r\n\r\n- x", b"", b"\n\n", b"# Mine\n"]) | st.binary(max_size=60),
    PLAYBOOKS,
    PLAYBOOKS,
)
def test_a_section_goes_without_a_trace(
    raw: bytes, first: tuple[Bullet, ...], second: tuple[Bullet, ...]
) -> None:
    written = with_section(raw, first)
    assert with_section(written, first) == written
    again = with_section(written, second)
    assert again == with_section(raw, second)
    assert without_section(again) == raw
    assert not find_section(again).is_edited


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project whose AGENTS.md has a line of its owner and the playbook."""
    (agent.project / "AGENTS.md").write_bytes(b"# Ours\n\nBe kind.\n")
    agent.call("mirror", "AGENTS.md")
    return agent


def text(agent: Agent) -> str:
    return (agent.project / "AGENTS.md").read_text("utf-8")


def edit(agent: Agent, old: str, new: str) -> None:
    before = text(agent)
    assert old in before
    (agent.project / "AGENTS.md").write_text(before.replace(old, new), "utf-8")


def test_edited_section_becomes_events_and_keeps_counts(agent: Agent) -> None:
    agent.call("add", "ctx", "The cart is in cart.py.")
    assert "- [ctx-001] The cart is in cart.py." in text(agent)
    before = text(agent)
    agent.counted()
    assert text(agent) == before
    edit(
        agent,
        "- [pat-001] Write the failing test first.",
        "- [pat-001] Write the test first.\n- Read the log too.",
    )
    edit(agent, "- [mis-001] Mocking the database hides broken migrations.\n", "")
    agent.call("drain")
    said = {bullet["name"]: (bullet["text"], bullet["helpful"]) for bullet in agent.json("list")}
    assert said["pat-001"] == ("Write the test first.", 1)
    assert said["pat-003"] == ("Read the log too.", 0)
    assert "mis-001" not in said
    assert "[pat-003] Read the log too." in text(agent)
    count = len(agent.events())
    agent.call("drain")
    assert len(agent.events()) == count


def test_recorded_edit_is_not_news_again(agent: Agent) -> None:
    """Another machine that shares the ledger removed the bullet meanwhile."""
    edit(agent, "- [pat-001]", "- Read the log too.\n- [pat-001]")
    added = next(row["name"] for row in agent.json("list") if row["text"] == "Read the log too.")
    with agent.open_ledger() as ledger:
        apply_changes(ledger, [Change("remove", added)], actor="human")
    assert "Read the log too." not in [row["text"] for row in agent.json("list")]


def test_edit_during_a_write_is_recorded(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(
        monkeypatch,
        agent.project / "AGENTS.md",
        lambda: edit(agent, "Keep functions small.", "Keep them small."),
    )
    agent.call("add", "ctx", "The cart is in cart.py.")
    assert "Keep them small." in text(agent)
    agent.call("drain")
    assert "Keep them small." in agent.call("list").out
    assert "The cart is in cart.py." in text(agent)


def test_file_saved_during_removal_keeps_both(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(
        monkeypatch, agent.project / "AGENTS.md", lambda: edit(agent, "Be kind.", "Be very kind.")
    )
    assert ("AGENTS.md changed after it was read") in agent.call(
        "mirror", "--off", "AGENTS.md", code=1
    ).err
    assert "Be very kind." in text(agent)
    assert "- [pat-001]" in text(agent)


def test_what_git_pulled_into_the_section_is_gits(agent: Agent, tmp_path: Path) -> None:
    commit(agent.project)
    git(agent.project, "clone", ".", tmp_path / "theirs")
    theirs = tmp_path / "theirs" / "AGENTS.md"
    theirs.write_text(
        theirs.read_text().replace("Write the failing test first.", "Run what we say.")
    )
    git(tmp_path / "theirs", "commit", "-am", "a typo")
    git(agent.project, "pull", tmp_path / "theirs")
    edit(agent, "Run what we say.", "Run what we say, in a sandbox.")
    agent.call("drain")
    said = [(one["actor"], one["data"]["text"]) for one in agent.events("bullet.revised")]
    assert said == [("git", "Run what we say."), ("human", "Run what we say, in a sandbox.")]


def test_bullet_with_marks_bounds_no_section(agent: Agent) -> None:
    for text_ in (
        "Use <!-- reflector:end --> and go on",
        "<!-- reflector:begin 000000000000+0 -->",
    ):
        agent.call("add", "pat", text_)
        agent.call("list")
        assert agent.json("list")[-1]["text"] == text_
    agent.call("mirror", "--off", "AGENTS.md")
    assert text(agent) == "# Ours\n\nBe kind.\n"


def test_question_records_an_edit_and_leaves_the_file(agent: Agent) -> None:
    edit(agent, "Keep functions small.", "Keep them small.")
    before = text(agent)
    assert "Keep them small." in agent.call("list").out
    assert text(agent) == before
    assert "AGENTS.md: edited" in agent.call("doctor", code=None).out
    agent.call("add", "ctx", "More.")
    assert "[ctx-001] More." in text(agent)
    assert "Keep them small." in text(agent)


@pytest.mark.parametrize(
    ("commands", "said"),
    first_fast(
        1,
        [
            ("list, undo", "- [pat-002] Keep functions small."),
            ("list, remove pat-002", ""),
            ("edit pat-002 Short.", "- [pat-002] Short."),
        ],
    ),
)
def test_result_of_an_edit_is_written_over_it(agent: Agent, commands: str, said: str) -> None:
    edit(agent, "[pat-002] Keep functions small.", "[pat-002] Keep them small.")
    for command in (*commands.split(", "), "list", "drain"):
        agent.call(*command.split(" ", 2))
    assert re.findall(r"- \[pat-00[2-9]].*", text(agent)) == [said][: bool(said)]
    assert [one["data"]["text"] for one in agent.events("bullet.revised")][:1] == [
        "Keep them small."
    ]


def test_two_edited_files_get_one_section(agent: Agent) -> None:
    agent.call("mirror", "GEMINI.md")
    edit(agent, "Keep functions small.", "Keep them small.")
    other = agent.project / "GEMINI.md"
    other.write_text(
        other.read_text("utf-8").replace("Keep functions small.", "Keep them short."), "utf-8"
    )
    agent.call("drain")
    assert [one["data"]["text"] for one in agent.events("bullet.revised")] == [
        "Keep them small.",
        "Keep them short.",
    ]
    assert "Keep them short." in text(agent)


def test_repeated_edit_after_an_undo_is_new(agent: Agent) -> None:
    for _ in range(2):
        edit(agent, "- [pat-002] Keep functions small.", "- [pat-002] Keep them small.")
        agent.call("list")
        agent.call("undo")
    assert len(agent.events("bullet.revised")) == 4
    assert "[pat-002] Keep functions small." in text(agent)


@pytest.mark.parametrize(
    ("broken", "mended", "told"),
    first_fast(
        3,
        [
            (
                r"(?s)begin [0-9a-f]{12}(.*)small",
                "begin " + "0" * 12 + r"\1large",
                "AGENTS.md: this file's copy of the playbook was edited",
            ),
            (
                r"<!-- reflector:end -->\n",
                "",
                "AGENTS.md: line 5: the line <!-- reflector:end -->, which ends the copy, is "
                "missing",
            ),
            (
                r"(<!-- reflector:begin .*\n)",
                r"\1=======\n\1",
                "AGENTS.md: line 7: a second copy of the playbook begins",
            ),
            (
                r"(?s)## Playbook.*?(?=<!-- reflector:end)",
                "",
                f"{_LEFT}the copy does not contain a rule",
            ),
            (
                r"(?=<!-- reflector:end)",
                "\nBe brief.\n",
                (f'{_LEFT}omitted: paragraphs (line 19 "Be brief.")'),
            ),
            (
                "Keep functions small.",
                f"Use {TOKEN}.",
                f"{_LEFT}bullet pat-002: the text seems to contain a secret",
            ),
        ],
    ),
)
def test_unreadable_section_is_left_and_named(
    agent: Agent, broken: str, mended: str, told: str
) -> None:
    edited = re.sub(broken, mended, text(agent))
    (agent.project / "AGENTS.md").write_text(edited, "utf-8")
    assert told in agent.call("add", "ctx", "More.").err
    assert text(agent) == edited
    assert "pat-001" in agent.call("list").out
    assert told in agent.call("doctor", code=None).out


def test_removed_mirror_leaves_the_owners_bytes(
    agent: Agent,
) -> None:
    agent.call("mirror", "--off", "AGENTS.md")
    assert text(agent) == "# Ours\n\nBe kind.\n"
    rule = agent.project / ".cursor" / "rules" / "playbook.mdc"
    told = agent.call("mirror", ".cursor/rules/playbook.mdc").out
    assert (
        ".cursor/rules/playbook.mdc was created with the playbook. reflector updates this file"
        in told
    )
    assert "To stop: reflector mirror --off .cursor/rules/playbook.mdc" in told
    assert rule.read_text("utf-8").startswith(
        "---\ndescription: The playbook\nalwaysApply: true\n---\n"
    )
    agent.call("mirror", "--off", ".cursor/rules/playbook.mdc")
    assert not rule.exists()


def test_users_playbook_is_kept_in_no_file(agent: Agent) -> None:
    agent.call("--user", "add", "pat", "Be brief.")
    refused = agent.call("--user", "mirror", "AGENTS.md", code=2).err
    assert "`mirror` can copy only the playbook of a project" in refused


def test_link_out_of_the_project_is_not_followed(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (agent.project / ".github").symlink_to(outside)
    refused = agent.call("mirror", "../x.md", code=2).err
    assert ("agents do not load '../x.md'; choose one of these files: CLAUDE.md") in refused
    ran = agent.call("mirror", ".github/copilot-instructions.md", code=2)
    assert ".github is a symbolic link" in ran.err
    assert list(outside.iterdir()) == []
