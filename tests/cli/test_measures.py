"""The words for numbers: every column and every number of JSON is in the list."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector.cli import output
from reflector.cli.app import run
from reflector.playbook.change import SET_FIELDS
from tests import schemas
from tests.cli.commands import QUESTIONS
from tests.measures import MEASURES
from tests.road.agent import environ

#: Columns that are no measure of a rule.
PLAIN_COLUMNS = {
    *("name", "rule", "text", "line", "position", "when", "session", "verdict", "why", "checked"),
    *("template", "day", "answers", "usd", "helpful_%", "found", "worked"),
    # of the report
    *("judge", "reason_and_quote", "change", "after", "week_of", "sessions", "corrections", "text"),
    *("of_all_verdicts", "overruled", "month", "cited_in_sessions", "shown_in_sessions"),
    *("tokens_of_its_line", "tokens_in_all", "text_and_sessions", "proposal", "stage", "from"),
    *("reason", "command"),
}
#: Numbers that are no measure of a rule.
PLAIN_NUMBERS = {
    *("position", "turn", "events", "sessions", "windows", "answers", "reflections", "unpriced"),
    *("helpful_rate", "told", "told_sessions", "questions", "unanswered", "requests"),
    # of a check: sessions without room for a line, without a sign of it, by earlier words
    *("left_out", "unseen", "earlier", "dropped", "yes", "no", "evidence"),
    # of all rules of its page: sessions since the last edit of the files, points of change
    *("since_edit", "change"),
}
#: Lessons are not rules.
OF_RULES = [question for question in QUESTIONS if not question.startswith("lessons")]
#: Documents about rules without their counters.
OF_CHECK = {"CheckedLine", "Answered", "LineJson", "LinesJson", "Checked"}


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns of the tables that are printed."""
    names: list[str] = []

    class Recorded(output._Column):
        def __init__(self, name: str, cells: list[str]) -> None:
            names.append(name)
            super().__init__(name, cells)

    monkeypatch.setattr(output, "_Column", Recorded)
    return names


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's project and the home that knows it; the tests ask and change
    nothing.
    """
    folder = tmp_path_factory.mktemp("measures")
    (folder / "home").mkdir()
    with environ({"HOME": str(folder / "home"), "PATH": os.environ["PATH"]}):
        assert run(["demo", str(folder / "demo")]) == 0
    (folder / "demo" / "CLAUDE.md").write_text("- Run the tests before you commit.\n", "utf-8")
    return folder


@pytest.fixture
def demo(played: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(played / "home"))
    return played / "demo"


@pytest.mark.parametrize(
    "command",
    [*OF_RULES, "list --as-of 10", "list --counting as_applied"],
)
def test_columns_are_words_of_the_list(demo: Path, columns: list[str], command: str) -> None:
    columns.clear()
    assert run(["--project", str(demo), *shlex.split(command)]) == 0
    assert columns or not command.startswith("list")
    assert _unlisted(columns) <= PLAIN_COLUMNS | {"event", "actor", "what"}


def test_report_columns_are_words_of_the_list(demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(["--project", str(demo), "report", "--out", str(page)]) == 0
    html = page.read_text("utf-8")
    heads = re.findall(r'<th scope="col">([^<]+)</th>|<span data-key="\w+">([^<]+)</span>', html)
    columns = [*filter(None, (one or other for one, other in heads))]
    assert len(columns) > 10
    assert {_key(column) for column in columns} - KEYS - {"share_helped"} <= PLAIN_COLUMNS


@pytest.mark.slow
def test_numbers_of_json_are_words_of_the_list() -> None:
    """Every document with the counters of a rule has them, a new one too."""
    definitions = schemas.schema()["$defs"]
    known = KEYS | PLAIN_NUMBERS | {*SET_FIELDS}
    unknown = {
        name: keys
        for name, of in definitions.items()
        if name in OF_CHECK or {"helpful", "harmful"} <= of.get("properties", {}).keys()
        if (keys := {*_numbers(of)} - known)
    }
    assert unknown == {}


def test_words_are_listed_once() -> None:
    assert len(KEYS) == len(MEASURES)


KEYS = {measure.key for measure in MEASURES}


def _key(column: str) -> str:
    return column.lower().replace(" ", "_")


def _unlisted(columns: list[str]) -> set[str]:
    return {_key(column) for column in columns} - KEYS


def _numbers(definition: dict[str, Any]) -> Iterator[str]:
    for key, of in definition["properties"].items():
        types = {one.get("type") for one in (of, *of.get("anyOf", ()))}
        if types & {"integer", "number"}:
            yield key
