"""The JSON of each question is what docs/json.md says, key by key and type by type."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import tamper
from tests.road.agent import Agent

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")
TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int,),
    "fraction": (float,),
    "bool": (bool,),
    "object": (dict,),
    "list": (list,),
    "null": (type(None),),
}

Keys = dict[str, tuple[type, ...]]


def documented(command: str, part: str = "") -> Keys:
    """The keys of a command's document, or of one of its parts, with the types that they may have."""
    section = re.search(rf"^## `reflector {command}[^`]*--json`$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, f"docs/json.md says nothing of {command}"
    text = section[1]
    if part:
        text = text[re.search(rf"`{part}`[^|`]*:\n", text).start() :]  # type: ignore[union-attr]
    (table,) = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[:1]
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+?) \|", table, re.MULTILINE)
    return {key: tuple(t for name in types.split(" or ") for t in TYPES[name]) for key, types in rows}


def assert_is(keys: Keys, value: Any) -> None:
    assert list(value) == list(keys)
    for key, types in keys.items():
        assert type(value[key]) in types, (key, value[key])


def test_list_and_show(lived_in: Agent) -> None:
    bullets = lived_in.json("list", "--all")
    assert {bullet["status"] for bullet in bullets} == {"live"}
    for bullet in bullets:
        assert_is(documented("list"), bullet)
        shown = lived_in.json("show", bullet["name"])
        assert_is({**documented("list"), **documented("show")}, shown)
        assert {key: shown[key] for key in bullet} == bullet


def test_log_and_session(lived_in: Agent) -> None:
    events = lived_in.json("log", "--all")
    assert len({event["type"] for event in events}) > 8
    for event in events:
        assert_is(documented("log"), event)
    assert [event["position"] for event in events] == list(range(1, len(events) + 1))
    story = lived_in.json("session", "s-gone")
    assert_is(documented("session"), story)
    for window in story["windows"]:
        assert_is(documented("session", "windows"), window)
        if window["quality"] is not None:
            assert_is(documented("session", "quality"), window["quality"])
    for event in story["events"]:
        assert_is(documented("log"), event)
    assert [window["state"] for window in story["windows"]] == ["failed"]
    (window,) = lived_in.json("session", "s-1")["windows"]
    (reflection,) = window["reflections"]
    assert_is(documented("session", "reflections"), reflection)
    for tag in reflection["tags"]:
        assert_is(documented("session", "tags"), tag)
    assert [(tag["name"], tag["tag"], tag["counted"]) for tag in reflection["tags"]] == [("pat-002", "harmful", False)]


def test_blame(lived_in: Agent) -> None:
    steps = [step for name in ("pat-001", "pat-002", "mis-001") for step in lived_in.json("blame", name)]
    for step in steps:
        assert_is(documented("blame"), step)
        for part in ("evidence", "uncounted_by"):
            if step[part] is not None:
                assert_is(documented("blame", part), step[part])
    assert any(step["evidence"] and step["uncounted_by"] for step in steps)
    assert {step["disposition"] for step in steps} == {"counted", "neutral", "baseline", "recounted"}


def test_citations_and_orphans(lived_in: Agent) -> None:
    found = lived_in.json("citations")
    for one in found:
        assert_is(documented("citations"), one)
    assert {one["name"]: (one["offered"], one["cited"], one["judged"]) for one in found} == {
        "pat-001": (4, 3, 2),
        "pat-002": (4, 1, 1),
        "mis-001": (4, 0, 0),
        "ctx-001": (1, 0, 0),
    }
    orphans = lived_in.json("orphans")
    assert_is(documented("orphans"), orphans)
    assert orphans["bullets"] == ["mis-001", "ctx-001"]
    for window in orphans["windows"]:
        assert_is(documented("orphans", "windows"), window)
    assert [window["session_id"] for window in orphans["windows"]] == ["s-gone"]


def test_double_counts(lived_in: Agent) -> None:
    found = lived_in.json("double-counts")
    assert_is(documented("double-counts"), found)
    for one in found["classes"]:
        assert_is(documented("double-counts", "classes"), one)
    for one in found["totals"]:
        assert_is(documented("double-counts", "totals"), one)
        assert one["as_applied"] == {key: lived_in.json("show", one["name"])[key] for key in ("helpful", "harmful")}


def test_stats(lived_in: Agent) -> None:
    found = lived_in.json("stats")
    assert_is(documented("stats"), found)
    keys = documented("stats")
    figures = {key: keys[key] for key in list(keys)[5:-4]}
    for kind in ("model", "template", "day"):
        assert found[f"by_{kind}"]
        for group in found[f"by_{kind}"]:
            assert_is({kind: (str,), **figures}, group)
        for key in ("answers", "helpful", "harmful", "undecided"):
            assert sum(group[key] for group in found[f"by_{kind}"]) == found[key]


def test_diff_bisect_and_replay(lived_in: Agent) -> None:
    found = lived_in.json("diff", "1..")
    assert_is(documented("diff"), found)
    for one in found["bullets"]:
        assert_is(documented("diff", "bullets"), one)
        for side in ("before", "after"):
            if one[side] is not None:
                assert_is(documented("diff", "after"), one[side])
    assert {one["name"]: one["change"] for one in found["bullets"]} == {
        "pat-001": "counted",
        "pat-002": "counted",
        "ctx-001": "added",
    }
    crossings = lived_in.json("bisect", "pat-001", "--when", "helpful > 0")
    for one in crossings:
        assert_is(documented("bisect"), one)
        assert_is(documented("log"), one["event"])
    assert [(one["holds"], one["event"]["session_id"]) for one in crossings] == [(True, "s-0")]
    replayed = lived_in.json("replay", "--without-session", "s-0", "--prune", "harmful > helpful")
    assert_is(documented("replay"), replayed)
    for one in replayed["bullets"]:
        assert_is(documented("replay", "bullets"), one)
    assert [one["name"] for one in replayed["bullets"] if one["differs"]] == ["pat-001"]


def test_policy(agent: Agent) -> None:
    agent.call("policy", "adopt", "once_per_session", "--why", "one voice a session")
    found = agent.json("policy")
    assert_is(documented("policy"), found)
    for one in found["adoptions"]:
        assert_is(documented("policy", "adoptions"), one)
    assert found["counting"] == "once_per_session"


def test_status(lived_in: Agent) -> None:
    status = lived_in.json("status", code=1)
    assert_is(documented("status"), status)
    assert_is(documented("status", "ledger"), status["ledger"])
    assert_is(documented("status", "spool"), status["spool"])
    assert [sorted(failure) for failure in status["spool"]["failed"]] == [["attempts", "delivery", "error", "given_up"]]
    assert status["spool"]["broken"] == ["1-1-1.json"]
    assert status["failures"]
    for failure in status["failures"]:
        assert_is(documented("status", "failures"), failure)


def test_status_where_nothing_is_has_the_same_keys(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_is(documented("status"), Agent(tmp_path / "empty", tmp_path).json("--project", tmp_path / "empty", "status"))


def test_verify(lived_in: Agent, tmp_path: Path) -> None:
    sound = lived_in.json("verify", "--anchor", lived_in.call("head").out.strip())
    assert_is(documented("verify"), sound)
    assert sound["findings"] == []
    for anchor in sound["anchors"]:
        assert_is(documented("verify", "anchors"), anchor)
    assert sound["anchors"]
    tampered = Agent(Path(shutil.copytree(lived_in.project, tmp_path / "tampered", symlinks=True)), lived_in.home)
    tamper(tampered)
    findings = tampered.json("verify", code=1)["findings"]
    assert findings
    for finding in findings:
        assert_is(documented("verify", "findings"), finding)


def test_head(lived_in: Agent) -> None:
    head = lived_in.json("head")
    assert_is(documented("head"), head)
    assert head["head"] == lived_in.call("head").out.strip() == lived_in.json("verify")["head"]


def test_sql(lived_in: Agent) -> None:
    views = lived_in.json("sql", "--views")
    for view in views:
        assert_is(documented("sql --views"), view)
    for view in views:
        for row in lived_in.json("sql", f"SELECT * FROM {view['view']}"):
            assert list(row) == view["columns"]
    bullets = lived_in.json("sql", "SELECT * FROM bullets ORDER BY ordinal")
    listed = lived_in.json("list", "--all")
    shared = [key for key in listed[0] if key in bullets[0]]
    assert len(shared) == 9
    assert [{key: row[key] for key in shared} for row in bullets] == [
        {key: row[key] for key in shared} for row in listed
    ]


def test_redact_where(lived_in: Agent) -> None:
    found = lived_in.json("redact", "--where", "The cart")
    assert_is(documented("redact --where TEXT"), found)
    for event in found["events"]:
        assert_is(documented("redact --where TEXT", "events"), event)
    assert found["events"]


def test_exports(lived_in: Agent) -> None:
    assert lived_in.call("export").out.encode() == lived_in.playbook.read_bytes()
    assert all(e["data"]["window"]["keys"] for e in lived_in.events("session.recorded"))


@pytest.mark.parametrize("command", ["list", "log", "show pat-001", "blame pat-001", "session s-0", "status", "verify"])
def test_every_document_is_one_json_value_and_nothing_else_on_stdout(lived_in: Agent, command: str) -> None:
    ran = lived_in.call(*command.split(), "--json", code=None)
    assert isinstance(json.loads(ran.out), dict | list)
    assert ran.out.endswith("\n")


def test_gate(lived_in: Agent) -> None:
    shadow = lived_in.json("gate", "--shadow", "turn")
    assert_is(documented("gate --shadow"), shadow)
    for window in shadow["windows"]:
        assert_is(documented("gate --shadow", "windows"), window)
    assert [window["reflects"] for window in shadow["windows"] if window["session_id"] == "s-gone"] == [None]
    assert list(lived_in.json("gate")) == ["gate", "policies"]


def test_mirror(agent: Agent) -> None:
    (found,) = agent.json("mirror", "AGENTS.md", "GEMINI.md")[:1]
    assert_is(documented("mirror"), found)
