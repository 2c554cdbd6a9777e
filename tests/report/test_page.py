"""The report: its numbers are those of the commands, and what it says of a moment was so."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from reflector.audit.checked import checked
from reflector.trials.status import standing
from tests.report.made import BEGIN, at, life
from tests.road.agent import Agent

_VOID = {"meta", "br", "input", "link", "img"}


class Reader(HTMLParser):
    """Reads a page: its tables by caption, the bullets' rows by name, and every tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.bullets: dict[str, dict[str, str]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self._span: list[str] = []
        self._caption, self._rows = "", list[list[str]]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        if tag in _VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "li" and own.get("data-name"):
            self.bullets[own["data-name"] or ""] = {}
        elif tag == "span" and self.bullets:
            self._span.append(own.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are closed in order"
        if tag == "table":
            self.tables[self._caption], self._caption, self._rows = self._rows[1:], "", []
        elif tag == "span" and self._span:
            self._span.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self.text += data
        if "caption" in self.open:
            self._caption += data
        elif {"td", "th"} & {*self.open} and "ul" not in self.open[self.open.index("table") :]:
            self._rows[-1][-1] += data
        if self._span and "summary" in self.open:
            of = self.bullets[[*self.bullets][-1]]
            of[self._span[-1]] = of.get(self._span[-1], "") + data


def whole(text: str) -> int:
    """The number that a cell shows."""
    return int(text.strip().replace(",", ""))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project after a simulated quarter."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("report"), {})
    with at(BEGIN), agent.open_ledger() as ledger:
        life(ledger, 240, 30, 84)
    agent.call("list")
    return agent


def report(agent: Agent, *options: str) -> str:
    """The report's markup."""
    path = agent.project.parent / "report.html"
    assert agent.call("report", "--out", path, *options).err == f"wrote {path}\n"
    return path.read_text("utf-8")


def said(agent: Agent, *words: str) -> Any:
    return json.loads(agent.call(*words, "--json", code=None).out)


@pytest.mark.parametrize("moment", ["", "1000"])
def test_every_number_is_that_of_json(agent: Agent, moment: str) -> None:
    as_of = ["--as-of", moment] if moment else []
    page = Reader(report(agent, "--since", "2025-12-20", *as_of))
    listed = said(agent, "list", "--sort", "best", *as_of)
    assert [*page.bullets] == [one["name"] for one in listed]
    for one in listed:
        shown = page.bullets[one["name"]]
        assert [int(n) for n in re.findall(r"\d+", shown["count"])] == [one["helpful"], one["harmful"]]
        assert re.search(rf"used {one['used']}(?!\d)", shown["use"])
        assert f" of {one['told_sessions']:,}" in shown["use"] or one["told_sessions"] is None
        if one["share"] is not None:
            assert shown["of"].split()[0] == f"{one['share']:.0%}"
            assert f"{one['low'] * 100:.0f}–{one['high']:.0%}" in shown["of"]
        steps = said(agent, "blame", one["name"], *as_of)
        rows = page.tables.get(f"{one['name']}: its newest counts, the newest first", [])
        assert [row[3] for row in rows] == [f"{s['helpful']}/{s['harmful']}" for s in steps[:-21:-1]]
        assert [row[1] for row in rows] == [(s["session_id"] or "–")[:8] for s in steps[:-21:-1]]
        assert all((s["quote"] or "") in row[-1] for s, row in zip(steps[:-21:-1], rows, strict=True))
        if len(steps) > 20:
            assert f"{len(steps) - 20} earlier counts: reflector blame {one['name']}" in page.text
    stats = said(agent, "stats", *as_of)
    judges = [[row[0], *map(whole, (*row[1:4], row[6]))] for row in page.tables["Verdicts by judge"]]
    keys = ("model", "helpful", "harmful", "undecided", "answers")
    assert judges == [[one[key] for key in keys] for one in stats["by_model"]]
    spent = page.tables["Tokens and cost by week and model"]
    for column, key in ((2, "answers"), (3, "tokens")):
        assert sum(whole(row[column]) for row in spent) == stats[key]
    assert sum(float(row[4]) for row in spent) == pytest.approx(float(stats["cost_usd"]), abs=0.01 * len(spent))
    until = moment or ""
    changed = said(agent, "diff", f"2025-12-20..{until}")["bullets"]
    totals = {one["name"]: [one[side] or {} for side in ("before", "after")] for one in changed}
    assert {row[0]: row[2:4] for row in page.tables["Bullets that changed"]} == {
        name: [f"{of['helpful']}/{of['harmful']}" if of else "–" for of in both] for name, both in totals.items()
    }
    lessons = said(agent, "lessons", *as_of)
    shown_lessons = sorted((row[0], row[3]) for row in page.tables.get("Lessons by worth", []))
    assert shown_lessons == sorted((one["data"]["text"], f"{one['effectiveness']:.2f}") for one in lessons)


def test_what_a_check_found_and_where_a_trial_stands(agent: Agent) -> None:
    page = Reader(report(agent))
    with agent.open_ledger() as ledger:
        found, trial = checked(ledger), standing(ledger)
    rows = page.tables["Lines of advice that were checked"]
    wanted = {c.name: [c.result, c.relevant, c.sessions, f"{c.followed.yes}/{c.followed.no}"] for c in found.lines}
    assert {row[0]: [row[1], whole(row[2]), whole(row[3]), row[4]] for row in rows} == wanted
    assert trial is not None
    arms = [[arm.sessions, arm.good] for arm in (trial.told, trial.without)]
    assert [list(map(whole, row[1:3])) for row in page.tables["Sessions of the trial"]] == arms
    assert trial.sentence in page.text


def test_weeks_add_up_to_what_the_view_of_sessions_says(agent: Agent) -> None:
    rows = Reader(report(agent)).tables["Sessions by week"]
    query = "SELECT count(*) AS n, sum(helpful) AS up, sum(harmful) AS down, sum(tokens) AS tokens FROM sessions"
    (of,) = json.loads(agent.call("sql", query, "--json").out)
    sums = [sum(whole(row[column]) for row in rows) for column in (1, 2, 3, 5)]
    assert sums == [of["n"], of["up"], of["down"], of["tokens"]]
    outcomes = said(agent, "log", "-n", "0", "--type", "session.outcome")
    assert sum(whole(row[4]) for row in rows) == sum(one["data"]["corrections"] for one in outcomes) > 0


def test_what_waits_is_named_with_the_command_that_decides_it(agent: Agent) -> None:
    page = Reader(report(agent))
    waits = {
        "undecided citations": (len(said(agent, "judge")), "judge"),
        "proposals": (len(said(agent, "proposals")), "proposals decide"),
        "failures": (len(said(agent, "status")["failures"]), "reflect"),
    }
    assert all(many for many, _ in waits.values())
    for kind, (many, command) in waits.items():
        assert f"{many} {kind}: reflector {command}" in page.text
    first = page.tables["Failures"][0]
    assert first[3] == f"reflector reflect {first[1]}"
    assert said(agent, "show", first[1])["session_id"].startswith(first[1])
    assert page.tables["Verdicts that a person took out of the count"]
    assert "Undecided citations" not in Reader(report(agent, "--as-of", "1000")).tables


def test_without_the_extra_it_says_how_to_get_it(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reflector.cli.report.find_spec", lambda _: None)
    assert "the extra 'report': " in agent.call("report", code=1).err


def test_an_empty_playbook_has_a_page(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    assert "No session has judged it yet" in report(agent) or Reader(report(agent)).bullets == {}


def test_each_query_for_datasette_answers(agent: Agent, tmp_path: Path) -> None:
    ran = agent.call("report", "--datasette", tmp_path / "look")
    assert ran.out == f"datasette {agent.ledger} --metadata {tmp_path / 'look' / 'metadata.json'}\n"
    metadata = json.loads((tmp_path / "look" / "metadata.json").read_text("utf-8"))
    charts = metadata["plugins"]["datasette-dashboards"]["playbook"]["charts"]
    queries = [one["sql"] for one in metadata["databases"]["ledger"]["queries"].values()]
    for query in (*queries, *(one["query"] for one in charts.values())):
        assert json.loads(agent.call("sql", query.replace(":name", "'pat-001'"), "--json").out), query
    with closing(sqlite3.connect(agent.ledger)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    hidden = {name for name, of in metadata["databases"]["ledger"]["tables"].items() if of.get("hidden")}
    assert {one for one in tables if not one.startswith("sqlite_")} == hidden
    assert "whole ledger" in agent.call("report", "--datasette", tmp_path, "--share", code=2).err
