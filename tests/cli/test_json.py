"""The JSON of each command is what its schema says, key by key and type by type: `Agent.json`
compares them. What `list` finds and sorts, an export of a moment, and the first question after an
upgrade.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import click
import pytest
from jsonschema import ValidationError

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS
from reflector.ledger.migration import VIEWS
from reflector.ledger.statements import CODE_VERSION
from reflector.playbook.entry import BulletRow
from tests.road.agent import Agent
from tests.schemas import ANSWERS, check


def test_each_json_command_has_a_type() -> None:
    def printing(command: click.Command, name: str) -> Iterator[str]:
        for inner in command.commands.values() if isinstance(command, click.Group) else ():
            yield from printing(inner, f"{name} {inner.name}")
        if any("--json" in one.opts for one in command.params):
            yield name

    context = click.Context(reflector)
    of = {
        name: reflector.get_command(context, name)
        for name in COMMANDS
        if name not in ("session", "outcome", "head")
    }
    found = {name for top, command in of.items() if command for name in printing(command, top)}
    without = {
        name for name in found if not any(f"{one} ".startswith(f"{name} ") for one in ANSWERS)
    }
    assert not without, (
        "name the type of their JSON after the command, such as StatsJson: "
        f"{', '.join(sorted(without))}"
    )
    assert {
        one for one in ANSWERS if not any(f"{one} ".startswith(f"{name} ") for name in found)
    } == set()


def test_changed_key_order_or_type_is_noticed(agent: Agent) -> None:
    (first, *_) = agent.json("list")
    fewer = {key: value for key, value in first.items() if key != "told"}
    wrongs = (
        {**first, "more": 1},
        fewer,
        {"told": True, **fewer},
        {**first, "told": "yes"},
        {**first, "text": None},
    )
    for wrong in wrongs:
        with pytest.raises(ValidationError):
            check("list", [wrong])


def test_bullet_has_equal_figures_in_every_command(lived_in: Agent) -> None:
    bullets = lived_in.json("list", "--removed")
    assert {bullet["status"] for bullet in bullets} == {"live"}
    totals = {
        one["name"]: one["as_applied"] for one in lived_in.json("stats", "--doubles")["totals"]
    }
    for bullet in bullets:
        shown = lived_in.json("show", bullet["name"])
        assert {key: shown[key] for key in bullet} == bullet
        assert totals[bullet["name"]] == {key: bullet[key] for key in ("helpful", "harmful")}
    rows = lived_in.json("sql", "SELECT * FROM bullets ORDER BY ordinal")
    shared = [key for key in bullets[0] if key in rows[0]]
    assert {field.name for field in fields(BulletRow)} == set(shared)
    assert [[row[key] for key in shared] for row in rows] == [
        [one[key] for key in shared] for one in bullets
    ]
    assert all(
        isinstance(lived_in.json("sql", f"SELECT * FROM {view}"), list) for view in VIEWS[1:]
    )
    assert lived_in.call("export").out.encode() == lived_in.playbook.read_bytes()


def test_status_says_what_each_start_costs(lived_in: Agent) -> None:
    text = lived_in.hook("SessionStart", source="startup")
    told = lived_in.json("status", code=1)["told"]
    assert told["characters"] == len(text)
    assert (told["bullets"], told["tokens"]) == (
        text.count("helpful="),
        -(-told["characters"] // 4),
    )
    said = f"in {told['characters']:,} characters, about {told['tokens']:,} tokens"
    assert said in lived_in.call("status", code=1).out


def test_values_that_are_missing_are_null(lived_in: Agent, tmp_path: Path) -> None:
    (baseline, *_) = lived_in.json("blame", "pat-002")
    lacking = (
        "session_id reflection_id tag backend model prompt_sha256 template_sha256 evidence "
        "uncounted_by"
    )
    assert [key for key in lacking.split() if baseline[key] is not None] == []
    (added,) = [one for one in lived_in.json("diff", "1..")["bullets"] if one["name"] == "ctx-001"]
    (unused,) = [one for one in lived_in.json("list") if one["name"] == "mis-001"]
    (then, *_) = lived_in.json("list", "--as-of", "1")
    nulls = (
        added["before"],
        unused["last_cited"],
        then["told"],
        lived_in.json("stats", "--as-of", "1")["month"],
    )
    assert nulls == (None,) * 4
    nothing = Agent(tmp_path, tmp_path).json("--project", tmp_path, "status")
    assert (nothing["ledger"], nothing["user"]) == (None, None)


def test_rebuild(agent: Agent) -> None:
    agent.call("drain")
    assert agent.json("rebuild", "--check") == agent.json("rebuild") == {"drift": [], "kept": None}
    edited = agent.playbook.read_text().replace('"helpful": 3', '"helpful": 4')
    agent.playbook.write_text(edited)
    (drift,) = agent.json("rebuild", "--check", code=1)["drift"]
    assert drift["of"] == str(agent.playbook)
    shown = agent.call("rebuild", "--check", code=1).out.splitlines()
    assert shown == [f"{agent.playbook}, pat-002: helpful is 4, but 3 in the ledger's events"]
    assert agent.playbook.read_text() == edited
    agent.call("list")  # records the edit
    assert agent.json("rebuild", "--check")["drift"] == []
    agent.playbook.write_text("{")
    assert Path(agent.json("rebuild")["kept"]).read_text() == "{"


@pytest.mark.parametrize("edit", ["unnamed", "indent", "newline"])
def test_rebuild_check_compares_content(agent: Agent, edit: str) -> None:
    agent.call("drain")
    text = agent.playbook.read_text()
    if edit == "unnamed":
        document = json.loads(text)
        document["sections"]["PATTERNS & APPROACHES"].append({"text": "Read the log first."})
        text = json.dumps(document, indent=2) + "\n"
    elif edit == "indent":
        text = json.dumps(json.loads(text), indent=4)
    else:
        text = text.removesuffix("\n")
    agent.playbook.write_text(text)
    agent.call("list")  # records the edit
    agent.playbook.write_text(text)
    assert agent.json("rebuild", "--check", code=0)["drift"] == []


def test_rebuild_check_names_a_copy_without_a_name(agent: Agent) -> None:
    agent.call("drain")
    document = json.loads(agent.playbook.read_text())
    rules = document["sections"]["PATTERNS & APPROACHES"]
    rules.append({key: value for key, value in rules[0].items() if key != "name"})
    agent.playbook.write_text(json.dumps(document))
    (drift,) = agent.json("rebuild", "--check", code=1)["drift"]
    assert [rule["name"] for rule in drift["rules"]] == ["a rule without a name"]
    shown = agent.call("rebuild", "--check", code=1).out
    assert f"a rule without a name, {rules[0]['text']!r}, is in {agent.playbook}, but" in shown


def test_rebuild_check_names_a_missing_rule(agent: Agent) -> None:
    agent.call("drain")
    document = json.loads(agent.playbook.read_text())
    rule = document["sections"]["PATTERNS & APPROACHES"].pop()
    agent.playbook.write_text(json.dumps(document))
    place = f"is in the ledger's events, but not in {agent.playbook}"
    shown = agent.call("rebuild", "--check", code=1).out
    assert f"{rule['name']}, {rule['text']!r}, {place}" in shown


def test_rebuild_check_passes_over_missing_counters(agent: Agent) -> None:
    agent.call("drain")
    document = json.loads(agent.playbook.read_text())
    for rule in document["sections"]["PATTERNS & APPROACHES"]:
        del rule["helpful"], rule["harmful"]
    agent.playbook.write_text(json.dumps(document))
    assert agent.json("rebuild", "--check")["drift"] == []


def test_rebuild_check_names_missing_rules(agent: Agent) -> None:
    agent.call("drain")
    document = json.loads(agent.playbook.read_text())
    (first, *_) = removed = document["sections"]["PATTERNS & APPROACHES"]
    document["sections"]["PATTERNS & APPROACHES"] = []
    agent.playbook.write_text(json.dumps(document))
    (drift,) = agent.json("rebuild", "--check", code=1)["drift"]
    assert drift["rules"][0] == {
        "name": first["name"],
        "value": "rule",
        "there": None,
        "by_events": first["text"],
    }
    assert len(drift["rules"]) == len(removed)


@pytest.mark.slow
def test_export_of_a_moment_is_the_file_then(tmp_path: Path) -> None:
    demo = Agent(tmp_path / "demo", tmp_path / "home")
    demo.home.mkdir()
    demo.call("demo", demo.project)

    def exports() -> list[str]:
        moments = ("7", "b83e4d11", "2199-01-01")
        return [demo.call("export", "--as-of", moment).out for moment in moments]

    before = exports()
    assert before[-1].encode() == demo.playbook.read_bytes()
    demo.call("ledger", "policy", "once_per_session")
    demo.call("add", "oth", "Something new")
    assert exports() == [*before[:-1], demo.playbook.read_text()]


def test_list_filters_sorts_and_shows_use(lived_in: Agent) -> None:
    for options, names in (
        ("--section mistakes", ["mis-001"]),
        ("zebra", []),
        ("--since 1970-01-01", ["mis-001", "ctx-001"]),
        ("--by cited -n 1", ["pat-001"]),
    ):
        assert [row["name"] for row in lived_in.json("list", *options.split())] == names, options
    assert lived_in.json("list", "failing TEST")[0]["name"] == "pat-001"
    assert "No rule matches." in lived_in.call("list", "zebra").err
    row = next(row for row in lived_in.json("list") if row["name"] == "pat-001")
    assert (row["cited"], row["undecided"], row["told"]) == (3, 1, True)
    header, *rows = lived_in.call("list").out.splitlines()
    columns = "NAME CITED HELPED HARMED UNDECIDED LAST CITED COUNTERS RULE"
    assert " ".join(header.split()) == columns
    (line,) = [line for line in rows if line.startswith("pat-001")]
    assert line.split()[1:5] == ["3", "1", "0", "1"]


def test_few_verdicts_have_no_percentage(lived_in: Agent) -> None:
    stats = lived_in.call("stats").out
    assert "helpful %" in stats
    assert not re.search(r"\d%", stats)


def test_an_upgrade_is_said_once(agent: Agent) -> None:
    agent.call("list")
    with closing(sqlite3.connect(agent.ledger, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE projection SET code_version = ? WHERE name = 'tables'", (CODE_VERSION - 1,)
        )
    assert [
        "the ledger was upgraded; to go back to the older ledger, run" in agent.call("list").err
        for _ in range(2)
    ] == [True, False]
