"""Changes by hand: each shows what it does and how it is undone, and the command that `log`
prints undoes it.
"""

import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reflector.changes.propose import propose
from reflector.cli.table import COMMANDS
from reflector.events import event as ev
from reflector.events.registry import RARE_TYPES
from reflector.playbook.change import KINDS, SET_FIELDS, Change
from tests.building import commit, git
from tests.conftest import first_fast
from tests.road.agent import REFLECTOR, Agent
from tests.road.sessions import Session

FIRST, SECOND = "Write the failing test first.", "Keep functions small."


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project whose playbook is in its ledger, with two counts."""
    ended = (Session(f"s-{number}").cites(f"pat-00{number + 1}", "helpful") for number in range(2))
    agent.call("ingest", *(one.write(agent.home / f"{one.id}.jsonl") for one in ended))
    return agent


def said(agent: Agent) -> Counter[tuple[object, ...]]:
    """Count the live bullets by all that a change can set, because names differ after an undo."""
    set_fields = sorted({*SET_FIELDS, "helpful", "harmful"})
    return Counter(tuple(row[field] for field in set_fields) for row in agent.json("list"))


def edits(agent: Agent, tmp_path: Path, script: str) -> None:
    """Make the editor a script of Python, which has the text in `text` and writes it back."""
    editor = tmp_path / "editor"
    body = (
        "import sys, pathlib, subprocess\nfile = pathlib.Path(sys.argv[1])\ntext = "
        f"file.read_text()\n{script}\n"
    )
    editor.write_text(f"#!{sys.executable} -IS\n{body}file.write_text(text)\n")
    editor.chmod(0o755)
    agent.environ["EDITOR"] = str(editor)


def test_a_dry_run_shows_what_is_done_then(agent: Agent) -> None:
    for command in (
        ["edit", "pat-001", "Write a test first."],
        ["edit", "[pat-001]", "--section", "mis"],
        ["merge", "pat-001", "pat-002", "--text", "Test first, and keep it small."],
        ["undo"],
    ):
        head = agent.call("ledger", "head").out
        shown = agent.json(*command, "--dry-run")
        assert (shown["applied"], shown["undo"], agent.call("ledger", "head").out) == (
            False,
            None,
            head,
        )
        lines = agent.call(*command, "--dry-run").out
        done = agent.json(*command)
        nowhere = {"position": None, "event_id": None}
        assert [{**one, **nowhere} for one in done["changes"]] == shown["changes"]
        for bullet in (bullet for one in done["changes"] for bullet in one["after"]):
            assert bullet == {key: agent.json("show", bullet["name"])[key] for key in bullet}
            assert f"[{bullet['name']}] helpful={bullet['helpful']} " in lines


def _proposed(agent: Agent) -> None:
    with agent.open_ledger() as ledger:
        change = Change("revise", "pat-001", text="Test first.")
        one = propose(
            ledger, change, origin="agent", trust="agent", reason="shorter", actor="agent"
        )
    agent.call("review", "approve", one.id)


def _imported(agent: Agent) -> None:
    file = agent.home / "more.json"
    bullets = [{"text": f"More {n}.", "helpful": n, "harmful": 0} for n in range(3)]
    file.write_text(json.dumps({"version": "1.0", "sections": {"OTHERS": bullets}}))
    agent.call("adopt", file)


def _edited(agent: Agent) -> None:
    agent.playbook.write_text(agent.playbook.read_text().replace('"helpful": 1', '"helpful": 9'))
    agent.call("drain")


def _judged(agent: Agent) -> None:
    agent.counted("pat-001", "harmful", id="s-9")


#: What makes an event of each type that changes bullets or counts, after what has to be there
#: first.
MADE: dict[str, tuple[list[list[str]], Any]] = {
    # A kind that has a command of its name; of two with one event, the first.
    **{KINDS[name].event: ([], [name, "pat-001"]) for name in reversed(KINDS) if name in COMMANDS},
    ev.BULLET_ADDED: ([], ["add", "ctx", "The cart is in cart.py."]),
    ev.BULLET_REVISED: ([], ["edit", "pat-001", "Test first."]),
    ev.BULLET_MOVED: ([], ["edit", "pat-001", "--section", "mis"]),
    ev.BULLET_REMOVED: ([], ["remove", "pat-001", "--why", "the linter does it"]),
    ev.BULLET_RESTORED: ([["remove", "pat-001"]], ["undo", "pat-001"]),
    ev.BULLET_MERGED: ([], ["merge", "pat-001", "pat-002", "--text", "Small tests first."]),
    ev.BULLET_UNMERGED: (
        [["merge", "pat-001", "pat-002", "--text", "Small tests first."]],
        ["undo", "pat-003"],
    ),
    ev.BULLET_RECOUNTED: ([], _edited),
    ev.PLAYBOOK_IMPORTED: ([], _imported),
    ev.CHANGE_APPROVED: ([], _proposed),
    ev.EVIDENCE_RETRACTED: ([], ["undo", "s-0", "--why", "a test"]),
    **dict.fromkeys(
        (ev.SESSION_RECORDED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED), ([], _judged)
    ),
    ev.POLICY_ADOPTED: ([], ["ledger", "policy", "once_per_session", "--why", "x"]),
}


@pytest.mark.parametrize("type_", first_fast(6, sorted({*RARE_TYPES, *MADE} - {ev.EVENT_REDACTED})))
def test_command_that_log_prints_undoes_the_change(agent: Agent, type_: str) -> None:
    ready, make = MADE[type_]
    for command in ready:
        agent.call(*command)
    before = said(agent)
    make(agent) if callable(make) else agent.call(*make)
    after = said(agent)
    assert (after == before) == (
        type_ in (ev.POLICY_ADOPTED, ev.BULLET_UNMERGED) and after == before
    )
    (event,) = agent.json("log", "--type", type_, "-n", "1")
    program, *words = shlex.split(event["undo"])
    assert program == "reflector"
    undone = agent.json(*words, "--yes")  # an adoption may have brought more than one bullet
    assert said(agent) == before
    (event,) = [one for one in agent.json("log", "-n", "0") if one["event_id"] == event["event_id"]]
    assert event["undo"].startswith("undone at")
    agent.call(*shlex.split(undone["undo"])[1:])
    assert said(agent) == after


def test_undone_number_brings_back_verdicts_before_it(agent: Agent) -> None:
    agent.counted(id="s-7")
    (helpful, harmful), text = agent.counters()["pat-001"], agent.playbook.read_text()
    agent.playbook.write_text(text.replace(f'"helpful": {helpful}', '"helpful": 9'))
    agent.counted(id="s-8")
    (edit,) = agent.json("log", "--type", "bullet.recounted")
    assert agent.counters()["pat-001"] == (10, harmful)
    again = agent.json("undo", str(edit["position"]))["undo"]
    assert agent.counters()["pat-001"] == (helpful + 1, harmful)
    steps = agent.json("blame", "pat-001")
    assert [step["disposition"] for step in steps][-4:] == ["counted", "undone", "counted", "undo"]
    assert (steps[-1]["helpful"], steps[-3]["uncounted_by"]["position"]) == (
        helpful + 1,
        steps[-1]["position"],
    )
    agent.call(*shlex.split(again)[1:])
    assert agent.counters()["pat-001"] == (10, harmful)
    agent.call("undo")
    agent.call("undo", "s-7", "--why", "a test")
    assert agent.counters()["pat-001"] == (helpful, harmful)
    assert agent.call("verify").out == ""


@pytest.mark.slow
def test_edit_keeps_changes_made_while_it_was_open(agent: Agent, tmp_path: Path) -> None:
    git(agent.project, "init")
    agent.call("team")
    commit(agent.project)
    meanwhile = (
        f"subprocess.run([*{REFLECTOR!r}, 'add', 'ctx', 'The cart.'], check=True, "
        "capture_output=True)\n"
    )
    edits(
        agent,
        tmp_path,
        meanwhile
        + (f"text = text.replace({FIRST!r}, 'Test first.').replace({SECOND!r}, 'Small.')"),
    )
    done = agent.call("edit")
    assert done.out == "bullet.revised  pat-001: Test first.\nbullet.revised  pat-002: Small.\n"
    texts = {bullet["name"]: bullet["text"] for bullet in agent.json("list")}
    assert (texts["pat-001"], texts["pat-002"], texts["ctx-001"]) == (
        "Test first.",
        "Small.",
        "The cart.",
    )
    agent.call(*shlex.split(done.err.partition("Undo: ")[2])[1:])
    assert {bullet["text"] for bullet in agent.json("list")} >= {FIRST, SECOND, "The cart."}
    edits(agent, tmp_path, "")
    assert "Nothing was changed" in agent.call("edit").err


def test_unreadable_edit_is_named_and_edited_again(agent: Agent, tmp_path: Path) -> None:
    edits(agent, tmp_path, f"text = text.replace({FIRST!r} + '\"', 'Test first.')")
    told = agent.call("edit", code=1).err
    assert "is not JSON" in told
    assert f"reflector cannot record your edits; correct {agent.playbook}" in told
    again = "text.replace('Test first.', 'Test early') if 'Test first.' in text else"
    edits(agent, tmp_path, f"""text = {again} text.replace('Test early,', 'Test early.",')""")
    assert "Edit the file again? [Y/n]" in agent.sent(80, "edit", typed=b"\n")
    assert agent.json("show", "pat-001")["text"] == "Test early."


def test_edit_with_a_name_opens_its_text(agent: Agent, tmp_path: Path) -> None:
    edits(agent, tmp_path, f"assert text.strip() == {FIRST!r}; text = 'Test\\nfirst.\\n'")
    assert "+ [pat-001] helpful=1 harmful=0 :: Test first." in agent.call("edit", "pat-001").out


def test_edit_of_an_unchanged_rule_records_nothing(agent: Agent, tmp_path: Path) -> None:
    edits(agent, tmp_path, "")
    head = agent.call("ledger", "head").out
    assert agent.call("edit", "pat-001").err == "Nothing was changed.\n"
    assert agent.call("ledger", "head").out == head


def test_playbook_is_free_while_a_rule_is_edited(agent: Agent, tmp_path: Path) -> None:
    adding = f"subprocess.run([*{REFLECTOR!r}, 'add', 'ctx', 'The cart.'], check=True)\n"
    edits(agent, tmp_path, adding + "text = 'Test first.'")
    agent.call("edit", "pat-001")
    assert {"The cart.", "Test first."} <= {bullet["text"] for bullet in agent.json("list")}


@pytest.mark.parametrize("option", ["--dry-run", "--json", "--section=pat"])
def test_options_of_edit_need_a_name(agent: Agent, option: str) -> None:
    assert "need the NAME of a rule" in agent.call("edit", option, code=2).err


def test_merge_of_unlike_rules_needs_their_text(agent: Agent) -> None:
    refused = agent.call("merge", "pat-001", "pat-002", code=2)
    assert (
        "pat-001 and pat-002 have different texts; give the text of the new rule with --text"
        in refused.err
    )
    assert len(agent.json("list")) == 3


def test_merge_asks_for_the_text_in_a_terminal(agent: Agent) -> None:
    shown = agent.sent(80, "merge", "pat-001", "pat-002", typed=b"Small tests first.\n")
    assert f"pat-002  {SECOND}" in shown
    assert agent.json("show", "pat-003")["text"] == "Small tests first."


def test_merge_of_like_rules_keeps_the_first_text(agent: Agent) -> None:
    agent.call("add", "pat", "Always write the failing test first.")
    (made,) = agent.json("merge", "pat-001", "pat-003")["changes"]
    assert [bullet["text"] for bullet in made["after"]] == [FIRST]


def test_merge_with_one_unlike_rule_needs_the_text(agent: Agent) -> None:
    agent.call("add", "pat", "Always write the failing test first.")
    assert "differ" in agent.call("merge", "pat-001", "pat-003", "pat-002", code=2).err


def test_add_outside_a_repository_names_the_playbook(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    said = agent.call("add", "pat", "Test first.")
    assert f"The rule goes into {agent.playbook}" in said.err
    assert "there is no git repository" not in agent.call("add", "pat", "Keep it small.").err


def test_add_in_a_repository_says_nothing_of_it(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    git(agent.project, "init")
    assert "git repository" not in agent.call("add", "pat", "Test first.").err
