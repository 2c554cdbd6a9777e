"""What `report` prints, and what the page shows of a rule of few verdicts or none."""

import json
import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from reflector.events import event as ev
from reflector.ledger.store import Ledger
from reflector.report.rules import Rule
from reflector.trials.trial import start, stop
from tests.conftest import first_fast
from tests.ledger.events import about, added, reflected, window
from tests.report.conftest import BEGIN, Reader, at, report
from tests.road.agent import Agent


@pytest.fixture
def project(tmp_path: Path) -> Agent:
    return Agent.in_folder(tmp_path, {})


def judged(ledger: Ledger, number: int, name: str, verdict: str) -> None:
    """A session that cites a rule, and the answer of a judge about it."""
    recorded = window(number, f"session-{number}")
    recorded.data["cited"] = [name]  # type: ignore[index]
    answered = about(ev.REFLECTION_ANSWERED, recorded, answer="{}", model="claude-haiku-5-5")
    answered.meta.update(input_tokens=1000, cost_usd="0.001")  # type: ignore[attr-defined]
    done, *tags = reflected(f"r{number}", recorded, (name, verdict))
    ledger.append([recorded, answered, done, *tags])


def shown(ledger: Ledger, sessions: int, names: list[str]) -> None:
    events = []
    for number in range(sessions):
        recorded = window(number, f"session-{number}")
        told = about(ev.ADVICE_TOLD, recorded, via="injection", lessons=[], bullets=names)
        events += [recorded, told]
    ledger.append(events)


def test_page_leaves_the_repository_clean(project: Agent) -> None:
    project.commit_long_ago()
    lines = project.call("report").out.splitlines()
    assert ".claude/reflector/report.html, " in lines[0]
    assert lines[1] == "To open the page: reflector report --open"
    status = ["git", "-C", str(project.project), "status", "--porcelain"]
    assert subprocess.check_output(status) == b""


def test_report_prints_its_last_days(project: Agent) -> None:
    with at(BEGIN), project.open_ledger() as ledger:
        with at(BEGIN):
            ledger.append([added("pat-001", "Write the failing test first.")])
            judged(ledger, 1, "pat-001", "helpful")
        with at(BEGIN + timedelta(days=20)):
            ledger.append([added("mis-002", "Mock the database.")])
            judged(ledger, 2, "pat-001", "helpful")
            judged(ledger, 3, "mis-002", "harmful")
            judged(ledger, 4, "mis-002", "harmful")
    path = project.project.parent / "page.html"
    lines = project.call("report", "--out", path).out.splitlines()
    size = path.stat().st_size / 1000
    assert lines == [
        f"Wrote {path}, {size:,.0f} kB. The page loads nothing from the network.",
        "7 to 14 Dec 2025: 3 sessions recorded, 3 verdicts (1 helped, 2 harmed) and 1 new rule",
        "helped most  pat-001  Write the failing test first.  1 session",
        "harmed most  mis-002  Mock the database.  2 sessions",
        "judges answered 3 questions for less than $0.01",
        "The page quotes your sessions. To write a page that you can send to others: reflector "
        "report --share",
    ]


@pytest.mark.parametrize(
    ("since", "days"),
    first_fast(
        2,
        [
            ("20", "24 Nov to 14 Dec 2025"),
            ("26", "14 Dec 2025"),
            ("2025-12", "1 to 14 Dec 2025"),
            ("20ab", "14 Dec 2025"),
        ],
    ),
)
def test_report_shows_the_days_since_a_moment(project: Agent, since: str, days: str) -> None:
    with at(BEGIN), project.open_ledger() as ledger:
        ledger.append([added(f"pat-{number:03}", f"Rule {number}.") for number in range(25)])
        with at(BEGIN + timedelta(days=20)):
            ledger.append([window(1, "20abcdef")])
    lines = project.call("report", "--since", since).out.splitlines()
    assert [line.partition(":")[0] for line in lines if "recorded," in line] == [days]


def test_report_of_nothing_prints_zeros(project: Agent) -> None:
    out = project.call("report", "--out", project.project.parent / "page.html").out
    assert "0 sessions recorded, 0 verdicts (0 helped, 0 harmed) and 0 new rules" in out
    assert "No session was shown a rule yet." in report(project)


def test_undone_rule_is_not_a_change(project: Agent) -> None:
    project.call("add", "pat", "Use make.")
    project.call("undo", "1")
    assert ">came and went<" not in report(project)


def test_shared_report_tells_to_read_it(project: Agent) -> None:
    path = project.project.parent / "page.html"
    out = project.call("report", "--share", "--out", path).out
    assert out.endswith(
        "The page contains the texts of your rules. Read the page before you send it.\n"
    )


def test_few_votes_have_no_percentage(project: Agent) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Write the failing test first.")])
        judged(ledger, 1, "pat-001", "helpful")
    page = Reader(report(project))
    assert page.bullets["pat-001"]["of"] == "1 of 1, too few to tell"
    assert "share" not in {own.get("class") for tag, own in page.tags if tag == "svg"}


def test_share_is_within_its_interval(project: Agent) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Write the failing test first.")])
        for number in range(5):
            judged(ledger, number, "pat-001", "helpful")
    page = Reader(report(project))
    assert page.bullets["pat-001"]["of"] == "100% 69–100%"


def test_code_in_a_rule_is_code(project: Agent) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Run `make <lint>` first.")])
    assert "Run <code>make &lt;lint&gt;</code> first." in report(project)


def test_verdict_by_hand_has_no_price(project: Agent) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Write the failing test first.")])
        recorded = window(1, "session-1")
        recorded.data["cited"] = ["pat-001"]  # type: ignore[index]
        answered = about(ev.REFLECTION_ANSWERED, recorded, answer="{}", backend="human")
        done, *tags = reflected("r1", recorded, ("pat-001", "helpful"))
        done.data["backend"] = "human"  # type: ignore[index]
        ledger.append([recorded, answered, done, *tags])
    page = Reader(report(project))
    assert "human" not in page.text
    judges = [row[0] for row in page.tables["Verdicts by judge"]]
    assert not {"human", "by hand"} & {row[0] for row in page.tables["Tokens and cost by model"]}
    assert judges


@pytest.mark.parametrize(
    ("text", "sessions", "red"),
    first_fast(
        3,
        [
            ("Keep functions small.", 99, 0),
            ("Keep functions small.", 100, 1),
            ("Never force-push to main.", 100, 0),
            ("Run the tests; don’t skip any.", 100, 0),
        ],
    ),
)
def test_wasted_rule_needs_sessions_and_no_ban(
    project: Agent, text: str, sessions: int, red: int
) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", text)])
        shown(ledger, sessions, ["pat-001"])
    page = Reader(report(project))
    assert (
        f"no session cited 1 of these rules. {red} of the rules without a citation (red)"
        in page.text
    )


def test_pinned_rule_is_never_wasted(project: Agent) -> None:
    project.call("config", "set", "pinned", "pat-001")
    project.call("config", "set", "prune_after", "2")
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Keep functions small."), added("pat-002", "Write short.")])
        shown(ledger, 2, ["pat-001", "pat-002"])
    page = Reader(report(project))
    assert "1 of the rules without a citation (red) were shown in 2 sessions or more" in page.text


def test_stopped_trial_shows_when(project: Agent) -> None:
    with at(BEGIN), project.open_ledger() as ledger:
        with at(BEGIN):
            ledger.append([added("pat-001", "Keep functions small.")])
            start(ledger, bullets=[], exempt=[], share=0.5, outcome="correction-free")
        with at(BEGIN + timedelta(days=1)):
            stop(ledger)
    text = Reader(report(project)).text
    assert "The trial ran from 24 Nov 2025 until it was stopped on 25 Nov 2025." in text
    assert "24 Nov 2026" not in text


def test_neutral_verdicts_are_called_neither(project: Agent) -> None:
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Keep functions small.")])
        judged(ledger, 1, "pat-001", "neutral")
    html = report(project)
    assert '<th scope="col">neither</th>' in html
    assert "undecided verdicts" not in html


def test_question_has_no_json_of_its_own(project: Agent) -> None:
    """A rule's text is data of `list --json`, and the page adds only marks to it."""
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", "Keep functions small.")])
    (row,) = json.loads(project.call("list", "--json").out)
    assert Reader(report(project)).bullets["pat-001"]["text"] == row["text"]


def test_rule_marks_a_check() -> None:
    row = type("Row", (), {"name": "pat-001", "text": "x", "share": None})()
    for key in ("helped", "harmed", "undecided", "followed", "broken", "low", "high"):
        setattr(row, key, 0)
    row.demoted = None
    (mark,) = Rule(row=row, check="followed 3 of 4, too few to tell").marks
    assert mark == ("check: followed 3 of 4, too few to tell", "plain")


def test_report_counts_lines_that_came_back(project: Agent) -> None:
    file = project.project / "CLAUDE.md"
    for text in ("- A.\n", "- A.\n- B.\n", "- A.\n", "- A.\n- B.\n"):
        file.write_text(text)
        project.call("log", "--memory")
    path = project.project.parent / "page.html"
    printed = project.call("report", "--out", path).out
    row = '<th scope="row">CLAUDE.md</th>'
    numbers = re.findall(r'<td class="n">(\d+)</td>', path.read_text().partition(row)[2])
    assert "1 memory file changed, 0 changes undone by you" in printed
    assert numbers[:3] == ["2", "1", "1"]


def test_shared_report_has_no_memory_file(project: Agent) -> None:
    for text in ("- A.\n", "- B.\n"):
        (project.project / "AGENTS.md").write_text(text)
        project.call("log", "--memory")
    path = project.project.parent / "page.html"
    project.call("report", "--share", "--out", path)
    assert "AGENTS.md" not in path.read_text()
