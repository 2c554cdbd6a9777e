"""Rules that stay in CLAUDE.md: their names, places and counts, and the way into the playbook."""

from pathlib import Path

import pytest

from reflector.hooks.fast import names_shown_in
from reflector.transcripts.tellings import telling_of
from tests.conftest import first_fast
from tests.judges.api import Api, answer, sound
from tests.road.agent import Agent
from tests.road.sessions import Session

TEXT = "# Git\n\n- Never force-push to main.\n- Run the linter before you commit.\n"


@pytest.fixture
def named(tmp_path: Path) -> Agent:
    """A project whose CLAUDE.md has two rules with names."""
    agent = Agent.bare(tmp_path)
    (agent.project / "CLAUDE.md").write_text(TEXT)
    agent.call("adopt", agent.project / "CLAUDE.md")
    return agent


def move(agent: Agent, *more: str, keys: str | None = None) -> str:
    return agent.call("adopt", "--move", *more, agent.project / "CLAUDE.md", keys=keys).err


def live(agent: Agent) -> int:
    return sum(row["status"] == "live" for row in agent.json("list"))


def test_rule_has_its_place_and_no_citations(named: Agent) -> None:
    rows = [line.split() for line in named.call("list").out.splitlines()]
    assert rows[0] == ["NAME", "PLACE", "CITED", "HELPED", "HARMED", "RULE"]
    assert rows[1][:5] == ["oth-001", "CLAUDE.md:3", "-", "-", "-"]
    assert not named.playbook.exists()


@pytest.mark.parametrize(
    ("command", "has"),
    first_fast(
        2,
        [
            (["blame", "CLAUDE.md:4"], "oth-002  Run the linter"),
            (["show", "CLAUDE.md:4"], "OTHERS, CLAUDE.md:4"),
            (["log", "CLAUDE.md:4"], "oth-002 in oth"),
            (["diff", "0..2"], "in your file"),
        ],
    ),
)
def test_rule_is_named_by_its_place(named: Agent, command: list[str], has: str) -> None:
    assert has in named.call(*command).out


def test_place_without_a_rule_prints_adopt(named: Agent) -> None:
    refused = named.call("remove", "CLAUDE.md:1", code=2).err
    assert (
        "the rule at CLAUDE.md:1 does not have a name, or no rule begins at this line." in refused
    )
    assert "reflector adopt CLAUDE.md" in refused


@pytest.mark.parametrize(
    "command",
    first_fast(
        2,
        [
            ["edit", "oth-001", "Other words."],
            ["edit", "CLAUDE.md:3"],
            ["remove", "oth-001"],
            ["merge", "oth-001", "oth-002"],
            ["trial", "start", "oth-001"],
        ],
    ),
)
def test_change_of_a_rule_in_files_prints_move(named: Agent, command: list[str]) -> None:
    before = named.json("log")
    refused = named.call(*command, code=2).err
    assert "oth-001 is in CLAUDE.md:3." in refused
    assert "reflector adopt --move CLAUDE.md" in refused
    assert named.json("log") == before


def test_start_does_not_print_rules_in_files(named: Agent) -> None:
    assert "force-push" not in named.hook("SessionStart", session_id="s-1")


@pytest.mark.parametrize(("keys", "count"), [("y\n", 2), ("n\n", 0), (None, 0)])
def test_move_waits_for_your_yes(named: Agent, keys: str | None, count: int) -> None:
    move(named, keys=keys)
    assert live(named) == count
    assert ((named.project / "CLAUDE.md").read_text() == TEXT) is not bool(count)


def test_dry_run_of_a_move_changes_nothing(named: Agent) -> None:
    move(named, "--dry-run", "--yes")
    assert (live(named), (named.project / "CLAUDE.md").read_text()) == (0, TEXT)


def test_moved_rules_are_called_yours(named: Agent) -> None:
    move(named, "--yes")
    text = named.hook("SessionStart", session_id="s-1")
    assert "## YOUR RULES (written by your user)\n### Git\n[oth-001] :: Never force-push" in text


def test_rule_shown_without_counters_was_shown(named: Agent) -> None:
    move(named, "--yes")
    text = named.hook("SessionStart", session_id="s-1")
    telling = telling_of(text)
    assert telling is not None
    assert telling.bullets == ("oth-001", "oth-002")
    assert names_shown_in(text.encode()) == {"oth-001", "oth-002"}
    assert named.json("status")["told"]["bullets"] == 2


def test_two_machines_have_one_row_a_rule(named: Agent, tmp_path: Path) -> None:
    other = Agent.bare(tmp_path / "other")
    (other.project / "CLAUDE.md").write_text(f"- Keep each function short.\n\n{TEXT}")
    other.call("adopt", other.project / "CLAUDE.md")
    export = tmp_path / "ledger.ndjson"
    export.write_text(named.call("export", "--format", "ndjson").out)
    other.call("import", export)
    assert [row["place"] for row in other.json("list")] == [
        "CLAUDE.md:1",
        "CLAUDE.md:5",
        "CLAUDE.md:6",
    ]


def test_export_keeps_rules_in_their_files(named: Agent, tmp_path: Path) -> None:
    export = tmp_path / "ledger.ndjson"
    export.write_text(named.call("export", "--format", "ndjson").out)
    other = Agent.bare(tmp_path / "other")
    other.call("import", export)
    assert [(row["status"], row["place"]) for row in other.json("list")] == [
        ("watched", "CLAUDE.md")
    ] * 2


def test_judge_counts_for_rules_in_files(named: Agent, api: Api) -> None:
    named.environ = api.environ(REFLECTOR_BACKEND="anthropic", REFLECTOR_UNCITED="true")
    api.else_ = sound(answer(("oth-001", "helpful"), turn=3, quote="Thanks, that was right."))
    made = Session("s-1").user("Push it.").agent("I push a new branch.")
    path = made.user("Thanks, that was right.").write(named.project.parent / "s-1.jsonl")
    named.call("ingest", path)
    assert named.json("show", "oth-001")["helpful"] == 1
    assert "Never force-push to main." in api.asked[0].text
    assert named.call("verify").out == ""


@pytest.mark.slow
def test_harm_of_a_file_rule_is_named(named: Agent, api: Api) -> None:
    named.environ = api.environ(REFLECTOR_BACKEND="anthropic", REFLECTOR_UNCITED="true")
    api.else_ = sound(answer(("oth-001", "harmful"), turn=3, quote="No, that is wrong now."))
    paths = []
    for number in range(12):
        made = Session(f"s-{number}").user("Push it.").agent("I push a new branch.")
        made.user("No, that is wrong now.")
        paths.append(made.write(named.project.parent / f"s-{number}.jsonl"))
    named.call("ingest", *paths)
    found = named.call("review", "find").err
    assert (
        "oth-001 in CLAUDE.md:3 harms too often. Edit this rule, or move it to the playbook: "
        in found
    )
    assert live(named) == 0


def test_move_names_repeated_lines(named: Agent) -> None:
    (named.project / "CLAUDE.md").write_text(f"{TEXT}- Never force-push to main.\n")
    printed = named.call("adopt", "--move", "--yes", named.project / "CLAUDE.md")
    assert (
        "CLAUDE.md:5 repeats the rule of CLAUDE.md:3, so `adopt` removes both lines" in printed.out
    )
    assert "Moved 2 rules." in printed.out


@pytest.mark.parametrize("more", ["", "- Use tabs.\n"], ids=["alone", "with a new rule"])
def test_undo_of_new_words_restores_the_text(named: Agent, more: str) -> None:
    before = named.json("list")
    reworded = TEXT.replace("before you commit", "before each commit") + more
    (named.project / "CLAUDE.md").write_text(reworded)
    named.call("adopt", named.project / "CLAUDE.md")
    after = named.json("list")
    undone = named.call("undo")
    assert "Run the linter before you commit." in undone.out
    assert [(row["name"], row["text"]) for row in named.json("list")] == [
        (row["name"], row["text"]) for row in before
    ]
    named.call("undo", undone.err.split()[-1])
    assert named.json("list")[1]["text"] == after[1]["text"]


def test_undo_of_names_shows_each_rule(named: Agent) -> None:
    shown = named.call("undo", "1..2", "--yes").out
    assert [line.split()[:2] for line in shown.splitlines()] == [
        ["forget", "oth-001"],
        ["forget", "oth-002"],
    ]


def test_line_of_a_removed_rule_has_no_name(named: Agent) -> None:
    named.call("undo", "1..2", "--yes")
    assert "oth-001" not in named.call("blame", "CLAUDE.md:3").out


def test_rule_of_the_playbook_has_no_place(named: Agent) -> None:
    named.call("add", "pat", "Keep functions small.")
    (named.project / "CLAUDE.md").write_text(f"{TEXT}- Keep functions small.\n")
    places = {row["name"]: row["place"] for row in named.json("list")}
    assert places == {"oth-001": "CLAUDE.md:3", "oth-002": "CLAUDE.md:4", "pat-001": None}
