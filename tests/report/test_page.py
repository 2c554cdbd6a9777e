"""The report of a simulated life: its numbers are those of the commands, and what it says of a
moment was so.
"""

import json
import re
import resource
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.audit.blame import blame_bullets
from reflector.audit.checked import checked_lines
from reflector.changes.propose import read_proposals
from reflector.ledger.as_of import Past
from reflector.reflection import standing
from reflector.report.page import MOST_RULES
from reflector.trials.trial import current_status
from tests.conftest import first_fast
from tests.report.conftest import DATASETTE, Reader, report
from tests.road.agent import Agent
from tests.road.sessions import Session


def whole(text: str) -> int:
    """The number that a cell shows."""
    return int(text.strip().replace(",", ""))


def said(agent: Agent, *words: str) -> Any:
    return json.loads(agent.call(*words, "--json", code=None).out)


@pytest.mark.parametrize("moment", first_fast(1, ["", "1000"]))
def test_every_number_is_that_of_json(agent: Agent, moment: str) -> None:
    as_of = ["--as-of", moment] if moment else []
    page = Reader(report(agent, "--since", "2025-12-20", *as_of))
    listed, overruled = said(agent, "list", "--by", "best", *as_of), dict[int, bool]()
    assert [*page.bullets] == [one["name"] for one in listed]
    for one in listed:
        shown = page.bullets[one["name"]]
        counts = [one["helped"], one["harmed"], *filter(None, [one["undecided"]])]
        numbers = re.findall(r"\d+(?:\.\d+)?", shown["count"])
        assert numbers == [f"{count:.3g}" for count in counts]
        assert re.search(rf"cited in {one['cited']} session", shown["use"])
        if one["told_sessions"] is not None:
            assert f"shown in {one['told_sessions']:,}" in shown["use"]
        votes = one["helped"] + one["harmed"]
        if one["share"] is None:
            assert shown["of"] == "–"
        elif votes < 5:
            helped = f"{one['helped']:.3g} of {votes:.3g}"
            assert shown["of"].startswith(f"{helped}, too few to tell")
            assert "%" not in shown["of"]
        else:
            assert shown["of"].split()[0] == f"{one['share']:.0%}"
            assert f"{one['low'] * 100:.0f}–{one['high']:.0%}" in shown["of"]
        steps = said(agent, "blame", one["name"], *as_of)
        by_hand = [(s, (s["uncounted_by"] or {}).get("reason") or "") for s in steps]
        overruled |= {
            s["position"]: not why.endswith(s["tag"])
            for s, why in by_hand
            if "your verdict is" in why
        }
        rows = page.tables.get(f"{one['name']}: the last verdicts, newest first", [])
        assert [row[3] for row in rows] == [
            f"{s['helpful']}/{s['harmful']}" for s in steps[:-21:-1]
        ]
        assert [row[1] for row in rows] == [(s["session_id"] or "–")[:8] for s in steps[:-21:-1]]
        assert all(
            (s["quote"] or "") in row[-1] for s, row in zip(steps[:-21:-1], rows, strict=True)
        )
        if len(steps) > 20:
            assert f"{len(steps) - 20} earlier verdicts: reflector blame {one['name']}" in page.text
    assert f"You overruled {sum(overruled.values())} verdict" in page.text
    assert len(page.tables.get("Verdicts that you overruled", ())) == sum(overruled.values())
    assert moment or len(overruled) > sum(overruled.values()) > 0, (
        "a person agreed once and did not once"
    )
    stats = said(agent, "stats", *as_of)
    judges = [
        [row[0], *map(whole, (*row[1:5], row[7]))] for row in page.tables["Verdicts by judge"]
    ]
    for one in stats["by_model"]:
        one["total"] = one["helpful"] + one["harmful"] + one["neither"]
    keys = ("helpful", "harmful", "neither", "total", "answers")
    by_hand = {"human": "by hand"}
    assert judges == [
        [by_hand.get(one["model"], one["model"]), *(one[key] for key in keys)]
        for one in stats["by_model"]
    ]
    for kind, groups in (("model", stats["by_model"]), ("month", stats["by_day"])):
        sums = Counter[str]()
        for one in groups:
            if one.get("model") == "human":
                continue
            sums[(one.get("day") or one["model"])[: 7 if kind == "month" else None]] += one[
                "tokens"
            ]
        assert {row[0]: whole(row[2]) for row in page.tables[f"Tokens and cost by {kind}"]} == sums
    spent = page.tables["Tokens and cost by week and model"]
    for column, key in ((2, "answers"), (3, "tokens")):
        by_people = sum(one[key] for one in stats["by_model"] if one["model"] == "human")
        assert sum(whole(row[column]) for row in spent) == stats[key] - by_people
    assert sum(float(row[4]) for row in spent) == pytest.approx(
        float(stats["cost_usd"]), abs=0.01 * len(spent)
    )
    until = moment or ""
    changed = said(agent, "diff", f"2025-12-20..{until}")["bullets"]
    totals = {one["name"]: [one[side] or {} for side in ("before", "after")] for one in changed}
    assert {row[0]: row[3:5] for row in page.tables["Rules that changed"]} == {
        name: [f"{of['helpful']}/{of['harmful']}" if of else "–" for of in both]
        for name, both in totals.items()
    }
    lessons = said(agent, "lessons", *as_of)
    shown_lessons = sorted((row[0], row[3]) for row in page.tables.get("Lessons by worth", []))
    assert shown_lessons == sorted(
        (one["data"]["text"], f"{one['effectiveness']:.2f}") for one in lessons
    )


@pytest.mark.slow
def test_report_shows_checked_rules_and_the_trial(agent: Agent) -> None:
    page = Reader(report(agent))
    with agent.open_ledger() as ledger:
        found, trial = checked_lines(ledger), current_status(ledger)
    rows = page.tables["Rules that were checked"]
    asked = [c for c in found.lines if c.result != "not asked about"]
    wanted = {
        c.name: [
            c.text,
            c.result,
            f"{c.relevant} of {c.sessions}",
            f"{c.followed.yes} of {c.followed.yes + c.followed.no}",
        ]
        for c in asked
    }
    assert (
        f"{len(found.lines) - len(asked)} rules that no judge was asked about: reflector check"
        in page.text
    )
    assert {row[0]: row[1:5] for row in rows} == wanted
    assert "check: followed in 27 of 27 sessions" in page.bullets["ctx-004"]["text"]
    arms = [[arm.sessions, arm.good] for arm in (trial.told, trial.without)]
    assert [list(map(whole, row[1:3])) for row in page.tables["Sessions of the trial"]] == arms
    assert trial.sentence in page.text


def test_weeks_sum_to_the_sessions_view(agent: Agent) -> None:
    rows = Reader(report(agent)).tables["Sessions by week"]
    query = "SELECT count(*) AS n, sum(helpful) AS up, sum(harmful) AS down FROM sessions"
    (of,) = json.loads(agent.call("sql", query, "--json").out)
    sums = [sum(whole(row[column]) for row in rows) for column in (1, 2, 3)]
    assert sums == [of["n"], of["up"], of["down"]]
    outcomes = said(agent, "log", "-n", "0", "--type", "session.outcome")
    assert (
        sum(whole(row[4]) for row in rows)
        == sum(one["data"]["corrections"] for one in outcomes)
        > 0
    )


def test_waiting_work_is_named_with_its_command(agent: Agent) -> None:
    page = Reader(report(agent))
    with agent.open_ledger() as ledger:
        undecided = len([*standing.citations(ledger)])
        proposals = len(read_proposals(ledger))
    waits = {
        "undecided citations": (undecided, "review"),
        "proposals": (proposals, "review"),
        "failures": (len(said(agent, "status")["failures"]), "reflect"),
    }
    assert all(many for many, _ in waits.values())
    for kind, (many, command) in waits.items():
        assert f"{kind.capitalize()}: {many}, reflector {command}" in page.text
    first = page.tables["Failures"][0]
    assert first[3] == f"reflector reflect {first[1]}"
    assert said(agent, "show", first[1])["session_id"].startswith(first[1])
    assert "Undecided citations" not in Reader(report(agent, "--as-of", "1000")).tables


@pytest.mark.slow
def test_a_flag_names_the_commands_that_act(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reflector.report.rules.HARMS", 0)
    page = Reader(report(agent, "--since", "1000"))
    for name, row in page.bullets.items():
        assert (
            "harmed more often than chance explains "
            f"reflector edit {name} or reflector remove {name}"
        ) in row["text"]


def test_an_empty_playbook_has_a_page(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    assert Reader(report(agent)).bullets == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "is_shown"), [((), True), (("--share",), False), (("--as-of", "1"), False)], ids=str
)
def test_page_begins_with_the_rules_of_check(
    tmp_path: Path, options: tuple[str, ...], is_shown: bool
) -> None:
    agent = Agent.bare(tmp_path)
    (agent.project / "CLAUDE.md").write_text("- Never use `git push --force`.\n")
    agent.commit_long_ago()
    session = Session("s-1").user("Go.").runs("git push --force", "ok")
    for record in session.records:
        record["cwd"] = str(agent.project)
    session.write(agent.home / ".claude/projects/-shop/s-1.jsonl")
    agent.call("add", "pat", "Keep it short.")
    rows = Reader(report(agent, *options)).tables.get("Rules to look at", [])
    assert [row[0] for row in rows] == ["CLAUDE.md:1"] * is_shown


@pytest.mark.slow
def test_page_of_many_bullets_is_bounded(tmp_path: Path) -> None:
    agent = Agent.in_folder(
        tmp_path,
        {"PATTERNS & APPROACHES": [f"Run step {n} first" for n in range(MOST_RULES + 50)]},
    )
    page = report(agent)
    assert len(Reader(page).bullets) == MOST_RULES
    assert "50 more rules are not on this page: <code>reflector list</code>" in page


@pytest.mark.slow
def test_blames_grow_with_the_playbook(tmp_path: Path) -> None:
    """Four times the imported bullets take about four times as long; each of them read its whole
    import once.
    """
    times = []
    for number in (1_500, 6_000):
        texts = [f"Run step {step}" for step in range(number)]
        agent = Agent.in_folder(tmp_path / str(number), {"PATTERNS & APPROACHES": texts})
        agent.call("list")
        with agent.open_ledger() as ledger:
            then = Past(ledger)
            began = time.process_time()
            assert len(blame_bullets(ledger, [*then.entries], then)) == number
            times.append(time.process_time() - began)
    assert times[1] < 8 * times[0] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", [8, 12])
def test_few_descriptors_give_no_traceback(agent: Agent, tmp_path: Path, descriptors: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    path = tmp_path / "page.html"
    ran = agent.run("report", "--out", path, code=None, preexec_fn=few)
    lines = [line for line in ran.err.splitlines() if not line.startswith("reading ")]
    assert path.exists() == (ran.code == 0)
    if ran.code:
        assert len(lines) == 1
        assert "ulimit -n" in lines[0]
    else:
        assert lines == []


def test_unknown_moment_is_one_error(agent: Agent) -> None:
    assert agent.call("report", "--as-of", "never", code=2).err.count("rror") == 1


def test_each_query_for_datasette_answers(agent: Agent) -> None:
    metadata = json.loads(DATASETTE.read_text("utf-8"))
    charts = metadata["plugins"]["datasette-dashboards"]["playbook"]["charts"]
    queries = [one["sql"] for one in metadata["databases"]["ledger"]["queries"].values()]
    for query in (*queries, *(one["query"] for one in charts.values())):
        assert json.loads(agent.call("sql", query.replace(":name", "'pat-001'"), "--json").out), (
            query
        )
    with closing(sqlite3.connect(agent.ledger)) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    hidden = {
        name for name, of in metadata["databases"]["ledger"]["tables"].items() if of.get("hidden")
    }
    assert {one for one in tables if not one.startswith("sqlite_")} == hidden
