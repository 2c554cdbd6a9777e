"""The JSON of each command is what its schema says, key by key and type by type: `Agent.json` compares them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from jsonschema import ValidationError

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS
from reflector.ledger.views import VIEWS
from tests.cli.conftest import tamper
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.schemas import ANSWERS, DOCS, check


def test_each_command_that_prints_json_has_a_type_and_no_other() -> None:
    def printing(command: click.Command, name: str) -> Iterator[str]:
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            yield from printing(inner, f"{name} {inner.name}")
        if any("--json" in one.opts for one in command.params):
            yield name

    context = click.Context(reflector)
    of = {name: reflector.get_command(context, name) for name in COMMANDS if name not in ("session", "outcome", "head")}
    found = {name for top, command in of.items() if command for name in printing(command, top)}
    assert {name for name in found if not any(f"{one} ".startswith(f"{name} ") for one in ANSWERS)} == set()
    assert {one for one in ANSWERS if not any(f"{one} ".startswith(f"{name} ") for name in found)} == set()


def test_a_key_more_a_key_less_another_order_and_another_type_are_noticed(agent: Agent) -> None:
    (first, *_) = agent.json("list")
    fewer = {key: value for key, value in first.items() if key != "told"}
    for wrong in (
        {**first, "more": 1},
        fewer,
        {"told": True, **fewer},
        {**first, "told": "yes"},
        {**first, "text": None},
    ):
        with pytest.raises(ValidationError):
            check("list", [wrong])


def test_list_and_show(lived_in: Agent) -> None:
    bullets = lived_in.json("list", "--all")
    assert {bullet["status"] for bullet in bullets} == {"live"}
    for bullet in bullets:
        shown = lived_in.json("show", bullet["name"])
        assert {key: shown[key] for key in bullet} == bullet


def test_log_and_session(lived_in: Agent) -> None:
    events = lived_in.json("log", "-n", "0")
    assert len({event["type"] for event in events}) > 8
    assert [event["position"] for event in events] == list(range(1, len(events) + 1))
    story = lived_in.json("show", "s-gone")
    assert [window["state"] for window in story["windows"]] == ["failed"]
    (window,) = lived_in.json("show", "s-1")["windows"]
    (reflection,) = window["reflections"]
    assert [(tag["name"], tag["tag"], tag["counted"]) for tag in reflection["tags"]] == [("pat-002", "harmful", False)]


def test_blame(lived_in: Agent) -> None:
    steps = [step for name in ("pat-001", "pat-002", "mis-001") for step in lived_in.json("blame", name)]
    assert any(step["evidence"] and step["uncounted_by"] for step in steps)
    assert {step["disposition"] for step in steps} == {"counted", "neutral", "baseline", "recounted"}


def test_double_counts(lived_in: Agent) -> None:
    found = lived_in.json("double-counts")
    for one in found["totals"]:
        assert one["as_applied"] == {key: lived_in.json("show", one["name"])[key] for key in ("helpful", "harmful")}


def test_stats(lived_in: Agent) -> None:
    found = lived_in.json("stats")
    for kind in ("model", "template", "day"):
        assert found[f"by_{kind}"]
        for key in ("answers", "helpful", "harmful", "undecided"):
            assert sum(group[key] for group in found[f"by_{kind}"]) == found[key]


def test_diff(lived_in: Agent) -> None:
    found = lived_in.json("diff", "1..")
    assert {one["name"]: one["change"] for one in found["bullets"]} == {
        "pat-001": "counted",
        "pat-002": "counted",
        "ctx-001": "added",
    }


def test_policy(agent: Agent) -> None:
    agent.call("ledger", "policy", "once_per_session", "--why", "one voice a session")
    found = agent.json("ledger", "policy")
    assert found["counting"] == "once_per_session"
    assert [one["reason"] for one in found["adoptions"]] == ["one voice a session"]


def test_status(lived_in: Agent) -> None:
    status = lived_in.json("status", code=1)
    assert [failure["given_up"] for failure in status["spool"]["failed"]] == [False]
    assert status["spool"]["broken"] == ["1-1-1.json"]
    assert status["failures"]


def test_status_where_nothing_is_has_the_same_keys(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status = Agent(tmp_path / "empty", tmp_path).json("--project", tmp_path / "empty", "status")
    assert (status["ledger"], status["user"]) == (None, None)


def test_verify(lived_in: Agent, tmp_path: Path) -> None:
    sound = lived_in.json("verify", "--anchor", lived_in.call("ledger", "head").out.strip())
    assert sound["findings"] == []
    assert sound["anchors"]
    assert (sound["since"], sound["left_out"]) == (None, [])
    new = lived_in.json("verify", "--since", lived_in.call("ledger", "head").out.strip())
    assert (new["findings"], new["since"]) == ([], {**sound["anchors"][0]})
    assert new["left_out"]
    tampered = Agent(Path(shutil.copytree(lived_in.project, tmp_path / "tampered", symlinks=True)), lived_in.home)
    tamper(tampered)
    findings = tampered.json("verify", code=1)["findings"]
    assert findings


def test_head(lived_in: Agent) -> None:
    head = lived_in.json("ledger", "head")
    assert head["head"] == lived_in.call("ledger", "head").out.strip() == lived_in.json("verify")["head"]


def test_sql(lived_in: Agent) -> None:
    for view in VIEWS[1:]:
        assert isinstance(lived_in.json("sql", f"SELECT * FROM {view}"), list)
    bullets = lived_in.json("sql", "SELECT * FROM bullets ORDER BY ordinal")
    listed = lived_in.json("list", "--all")
    shared = [key for key in listed[0] if key in bullets[0]]
    assert len(shared) == 9
    assert [{key: row[key] for key in shared} for row in bullets] == [
        {key: row[key] for key in shared} for row in listed
    ]


def test_redact_where(lived_in: Agent) -> None:
    found = lived_in.json("redact", "--where", "The cart")
    assert found["events"]


def test_exports(lived_in: Agent) -> None:
    assert lived_in.call("export").out.encode() == lived_in.playbook.read_bytes()
    assert all(e["data"]["window"]["keys"] for e in lived_in.events("session.recorded"))


@pytest.mark.parametrize("command", ["list", "log", "show pat-001", "blame pat-001", "show s-0", "status", "verify"])
def test_every_document_is_one_json_value_and_nothing_else_on_stdout(lived_in: Agent, command: str) -> None:
    ran = lived_in.call(*command.split(), "--json", code=None)
    assert isinstance(json.loads(ran.out), dict | list)
    assert ran.out.endswith("\n")


def test_values_that_are_missing_are_null(lived_in: Agent) -> None:
    (baseline, *_) = lived_in.json("blame", "pat-002")
    lacking = "session_id reflection_id tag backend model prompt_sha256 template_sha256 evidence uncounted_by"
    assert [key for key in lacking.split() if baseline[key] is not None] == []
    (added,) = [one for one in lived_in.json("diff", "1..")["bullets"] if one["name"] == "ctx-001"]
    assert added["before"] is None
    (unused,) = [one for one in lived_in.json("list") if one["name"] == "mis-001"]
    assert (unused["last_used"], unused["reason"], unused["removed_into"]) == (None, None, None)
    (then,) = [one for one in lived_in.json("list", "--as-of", "1") if one["name"] == "pat-001"]
    assert then["told"] is None
    assert lived_in.json("stats", "--as-of", "1")["month"] is None


def test_ingest_and_drain(agent: Agent, tmp_path: Path) -> None:
    path = Session("s-1").cites("pat-001", "helpful").write(tmp_path / "1.jsonl")
    recorded = agent.json("ingest", path, tmp_path / "none.jsonl", code=1)
    (one,) = recorded["files"]
    assert (one["session_id"], one["cited"], one["outcome"]) == ("s-1", ["pat-001"], "completed")
    assert [name.partition(":")[0] for name in recorded["failed"]] == [str(tmp_path / "none.jsonl")]
    assert agent.json("ingest", path)["files"] == [
        {"file": str(path), "session_id": "s-1", "window_id": None, "records": 0, "cited": [], "outcome": None}
    ]
    agent.ended("pat-002", "harmful", id="s-2")
    drained = agent.json("drain")
    assert (drained["ran"], drained["recorded"]) == (True, 1)
    assert [one["detail"] for one in drained["reflected"]] == ["pat-002 harmful"]
    agent.hook("SessionEnd", session_id="s-3", transcript_path=str(tmp_path))
    assert agent.json("drain", code=1)["failed"]


def test_import_history(agent: Agent, tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    (folder / "a").mkdir(parents=True)
    Session("s-1").cites("pat-001", "helpful").write(folder / "a" / "s-1.jsonl")
    asked = ("import-history", "--folder", folder)
    for found in (folder / "a").iterdir():
        lines = [{**json.loads(line), "cwd": str(agent.project)} for line in found.read_text().splitlines()]
        found.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (dry,) = agent.json(*asked, "--dry-run")
    assert (dry["files"], dry["recorded"]) == (1, None)
    (done,) = agent.json(*asked)
    assert (done["recorded"], done["failed"]) == (1, [])
    assert agent.json("import-history") == []


def test_import_copy_backup_and_restore(agent: Agent, tmp_path: Path) -> None:
    given = tmp_path / "given.json"
    given.write_bytes(agent.playbook.read_bytes())
    agent.write_playbook({})
    assert agent.json("import", given)["bullets"] == 3
    export = tmp_path / "ledger.ndjson"
    export.write_text(agent.call("export", "--format", "ndjson").out)
    merged = agent.json("import", export)
    assert (merged["added"], merged["forward"], merged["renamed"]) == (0, False, {})
    empty = Agent(tmp_path / "empty", tmp_path / "home")
    empty.claude.mkdir(parents=True)
    head = agent.json("ledger", "head")["head"]
    assert empty.json("import", export) == {"head": head, "kept": None}
    agent.call("ledger", "copy", f"sqlite:///{tmp_path / 'copy.db'}")
    backup = tmp_path / "ledger.backup"
    assert agent.call("ledger", "backup", backup).out == f"{head}\n"
    assert "The replaced ledger is kept as" in agent.call("ledger", "restore", backup).err


def test_rebuild(agent: Agent) -> None:
    agent.call("drain")
    assert agent.json("rebuild", "--check") == agent.json("rebuild") == {"drift": [], "kept": None}
    agent.playbook.write_text(agent.playbook.read_text().replace('"helpful": 3', '"helpful": 4'))
    (drift,) = agent.json("rebuild", "--check", code=1)["drift"]
    assert drift["of"] == str(agent.playbook)
    agent.playbook.write_text("{")
    assert Path(agent.json("rebuild")["kept"]).read_text() == "{"


def test_the_exit_code_is_1_for_what_the_page_says_and_the_document_is_printed(lived_in: Agent, agent: Agent) -> None:
    agent.call("drain")
    agent.playbook.write_text(agent.playbook.read_text().replace('"helpful": 3', '"helpful": 4'))
    agent.json("rebuild", "--check", code=1)
    tamper(agent)
    agent.json("verify", code=1)
    agent.json("doctor", code=1)
    lived_in.json("status", code=1)
    page = (DOCS / "machines.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z -]+)` \| \w", page.partition("exits with 1 if")[2], re.MULTILINE)
    shown = rows[: rows.index("verify") + 1]
    # The other tests of this module see the rest.
    assert shown == ["doctor", "status", "drain", "ingest", "import-history", "rebuild --check", "verify"]
