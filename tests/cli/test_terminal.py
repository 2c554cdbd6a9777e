"""What reaches a terminal: no foreign control characters, no lines wider than it is."""

import os
import re
import shlex
import unicodedata
from datetime import datetime
from pathlib import Path

import pytest

from reflector.embed.lessons.recording import observe_outcome, record_lesson
from reflector.ledger.store import Ledger
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

#: What a terminal obeys or hides, besides a line feed.
OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ufeff\U000e0000-\U000e007f]"
)
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \u202etxet\u2066 \x9b2J \x00 \r over \u2028 \U000e0041"
COMMANDS = (
    *(
        "list --removed",
        "log -n 0",
        "show pat-001",
        "blame pat-001",
        "show s-1",
        "status",
        "export --format md",
    ),
    *("export --format csv", "verify", "stats --doubles", "stats", "diff 0..", "ledger policy"),
)


@pytest.fixture
def hostile(agent: Agent, tmp_path: Path) -> Agent:
    """Control characters wherever somebody else chooses the text."""
    session = Session("s-1").user(f"Fix it. {HOSTILE}").agent(f"As [pat-001] says. {HOSTILE}")
    session.user(f"Perfect, that works. Thanks! {HOSTILE}").agent("Fine.")
    for record in session.records:
        record["version"] = f"2.1 {HOSTILE}"
    session.records.append({"type": f"odd {HOSTILE}", "uuid": "u-1"})
    path = session.write(tmp_path / "a\x1b[31m\u202eb.jsonl")
    other = Session(f"s {HOSTILE}").user("Hello.").write(tmp_path / "2.jsonl")
    missing = str(tmp_path / "gone \x1b[31m\u202e.jsonl")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path), reason=HOSTILE)
    agent.hook("SessionEnd", session_id=f"s {HOSTILE}", transcript_path=str(other), prompt_id="p")
    for event in ("Stop", "SessionEnd"):
        agent.hook(event, session_id="s-3", transcript_path=missing, prompt_id="p")
    told = agent.call("drain", code=1)
    assert "gone" in told.err
    assert not OBEYED.search(told.out + told.err)
    assert agent.counters()["pat-001"] == (1, 0)
    return agent


def test_foreign_text_brings_no_control_characters(hostile: Agent, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\u202eb.jsonl"
    hostile.call("add", "oth", "Wide and tall:\n日本語のテキスト\n\tand tabs")
    commands = [command.split() for command in COMMANDS]
    odd = Session("odd").cites("pat-001").write(tmp_path / os.fsdecode(b"caf\xe9\x1b[31m.jsonl"))
    files = (path, odd, tmp_path / "no\x1b[31m.jsonl")
    for command in (*commands, *(["ingest", str(file)] for file in files), ["blame", HOSTILE[:9]]):
        ran = hostile.call(*command, code=None)
        shown = ran.out + ran.err
        if "csv" in command:  # a cell may have lines and tabs
            shown = shown.replace("\r\n", "\n").replace("\t", " ")
        assert not OBEYED.search(shown), (command, ran)
    for command in (
        *([*command, "--json"] for command in commands[:6]),
        ["export", "--format", "ndjson"],
    ):
        assert not OBEYED.search(hostile.call(*command, code=None).out), command


def on_terminal(agent: Agent, columns: int, *arguments: str) -> list[str]:
    """The lines that a terminal of so many columns is sent; our own bold and colours are taken
    off.
    """
    return plain(agent.sent(columns, *arguments)).splitlines()


def plain(text: str) -> str:
    text = re.sub(r"\x1b\[(?:\d+(?:;\d+)*)?m", "", text)
    assert not OBEYED.search(text)
    return text


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


#: Every question that prints a table, and the keys of the JSON whose values identify its rows.
SWEPT = {
    "list": "name cited",
    "list --by last-cited": "name",
    "log -n 0": "position type session_id",
    "show pat-002": "position type",
    "show s-1": "position type",
    "blame pat-001": "position session_id",
    "stats --doubles": "code tags",
    "stats": "model day answers",
    "status": "",
    "lessons recall 'the cart'": "id kind",
    "lessons": "id kind state",
    "sql 'SELECT name, text, section FROM bullets'": "",
    "sql 'SELECT * FROM bullets'": "",
    "config list": "",
    "diff 1..": "name",
}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80])
def test_identifiers_are_whole_on_a_narrow_terminal(lived_in: Agent, columns: int) -> None:
    with Ledger.open_file(lived_in.ledger) as ledger:
        more = {"actor": "engine", "task": "a type of task with a long name"}
        id = record_lesson(
            ledger,
            "reflection",
            "Look at the file first, and only then say what is in it",
            **more,
        )
        for key in range(12):
            observe_outcome(ledger, id, "success", source="tests", key=[key])
    for asked in SWEPT:
        printed = plain(lived_in.sent(columns, *shlex.split(asked), code=None, errors=False))
        # A bullet's own line, and a path, are broken by the terminal, which copies them whole.
        lines = [
            line for line in printed.splitlines() if not line.startswith("[") and "/" not in line
        ]
        assert lines, asked
        assert max(map(width, lines)) <= columns, asked
        answer = lived_in.json(*shlex.split(asked), code=None)
        for value in identifying(answer, SWEPT[asked].split()):
            assert re.search(rf"(?<!\S){re.escape(value)}(?![\w…])", printed), (
                asked,
                value,
                printed,
            )


def test_narrow_table_shortens_times(agent: Agent, tmp_path: Path) -> None:
    for year in (2025, datetime.now().year):
        session = Session(f"s-{year}").cites("pat-001").write(tmp_path / f"{year}.jsonl")
        session.write_text(re.sub(r"\b20\d\d(?=-\d\d-\d\dT)", str(year), session.read_text()))
        agent.call("ingest", session)
    times = {
        line.split()[1] for line in on_terminal(agent, 80, "log") if " session.recorded " in line
    }
    assert [bool(re.fullmatch(r"2025-\d\d-\d\d|\d\d-\d\d", time)) for time in times] == [True, True]
    for time in times:
        assert agent.json("log", "--since", time)


def identifying(document: object, keys: list[str]) -> set[str]:
    """The values of the keys, wherever they are, as a table shows them."""
    if isinstance(document, list):
        return {value for one in document for value in identifying(one, keys)}
    if not isinstance(document, dict):
        return set()
    found = {value for one in document.values() for value in identifying(one, keys)}
    own = {key: document[key] for key in keys if document.get(key) is not None}
    return found | {
        str(value)[:8] if key in ("session_id", "id") else str(value) for key, value in own.items()
    }


def test_pipe_gets_every_character(agent: Agent) -> None:
    text = ("A long piece of advice. " * 40).strip()
    agent.call("add", "oth", text)
    ran = agent.call("list")
    assert text in ran.out
    assert "\x1b" not in ran.out
    assert len([line for line in on_terminal(agent, 1, "list") if line.strip()]) >= 3


@pytest.mark.parametrize("columns", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_reason_is_whole_at_any_width(agent: Agent, tmp_path: Path, columns: int) -> None:
    said = (
        "No, that is wrong. Please don't change the 合計 there, revert it and think about the "
        "reducer first."
    )
    session = Session().cites("pat-001", None).user(said).agent("You are right.")
    agent.call("ingest", session.write(tmp_path / "1.jsonl"))
    (step,) = agent.json("blame", "pat-001")
    assert step["harmful"] == 1
    *_, told = "\n".join(on_terminal(agent, columns, "blame", "pat-001")).partition("\n\n")
    header, *lines = told.splitlines()
    assert len(lines) > 1
    assert max(map(width, lines)) <= columns
    # A word that is longer than the column is broken as well.
    why = "".join("".join(line[header.index("why") :].split()) for line in lines)
    assert "".join(step["rationale"].split()) in why


def test_narrow_table_names_the_missing_columns(lived_in: Agent) -> None:
    lines = on_terminal(lived_in, 60, "log", "-n", "3")
    assert "actor" not in lines[0]
    words = "The screen is too narrow for these columns: actor"
    assert [line for line in lines if line.startswith(words)]


def test_list_wraps_a_long_rule(lived_in: Agent) -> None:
    text = lived_in.json("show", "pat-001")["text"]
    lived_in.call("add", "oth", f"{text} {'Then say so in the pull request. ' * 3}".strip())
    wrapped = on_terminal(lived_in, 50, "list", "pull")
    assert len(wrapped) > 3
    assert not [line for line in wrapped if "…" in line]


BROKEN = "sh\nop\x1b[31m"
FILE = ".claude/rules/na\nme.md"


@pytest.fixture
def broken(tmp_path: Path) -> Agent:
    """A project and a file whose names have a line break."""
    agent = Agent.bare(tmp_path / BROKEN)
    file = agent.project / FILE
    file.parent.mkdir(parents=True)
    file.write_text("- Run `make test` before you commit.\n")
    agent.call("add", "oth", "Seed it.")
    return agent


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("doctor",),
        ("install", "--scope", "project"),
        ("team",),
        ("off",),
        ("ledger", "forget", "../gone"),
        ("blame", f"{FILE}:1"),
        ("undo", f"gone/{FILE}"),
    ],
    ids=" ".join,
)
def test_line_break_in_a_path_is_hidden(broken: Agent, arguments: tuple[str, ...]) -> None:
    ran = broken.call(*arguments, code=None)
    shown = ran.out + ran.err
    assert not OBEYED.search(shown)
    assert not re.search("^(op|me)", shown, re.MULTILINE)


def test_projects_with_a_line_break_have_one_row(broken: Agent) -> None:
    broken.call("status", "--projects")
    session = Session("s-1").cites("oth-001")
    folder = re.sub("[^A-Za-z0-9]", "-", str(broken.project))
    for record in session.records:
        record["cwd"] = str(broken.project)
    session.write(broken.home / ".claude/projects" / folder / "s-1.jsonl")
    elsewhere = Agent(broken.home, broken.home)
    elsewhere.environ = {"CLAUDE_PROJECT_DIR": "/"}
    for arguments in (["status", "--projects"], ["--project", str(broken.home), "check"]):
        shown = elsewhere.call(*arguments, code=None)
        assert not re.search("^op", shown.out + shown.err, re.MULTILINE)


LONG = (
    f"Look at https://example.com/{'a/long/path/' * 8}index.html before you change the address. "
    "注释必须适合终端的宽度，" * 6
)


@pytest.mark.parametrize("columns", first_fast(1, [80, 40]))
@pytest.mark.parametrize(
    "command",
    ["list", "log", "show oth-001", "blame oth-001", "diff 1..", "review", "help --all", "list zz"],
)
def test_only_a_word_is_wider_than_the_terminal(agent: Agent, command: str, columns: int) -> None:
    agent.call("add", "oth", LONG)
    agent.call("edit", "oth-001", f"{LONG} Then stop.")
    lines = on_terminal(agent, columns, *command.split())
    assert [line for line in lines if width(line) > columns and " " in line.strip()] == []


@pytest.mark.parametrize(
    ("command", "to_copy"),
    [
        ("blame nope", "reflector list --removed"),
        ("undo CLAUDE.md", "reflector log --memory"),
        ("show s-9", "`reflector log`"),
    ],
)
def test_command_to_copy_is_on_one_line(agent: Agent, command: str, to_copy: str) -> None:
    shown = [agent.sent(columns, *command.split(), code=2) for columns in range(50, 90, 5)]
    assert [text for text in shown if to_copy not in text] == []


def test_narrow_log_marks_undone_changes(agent: Agent) -> None:
    agent.call("edit", "pat-001", "Run the tests before each commit, not after it.")
    position = agent.json("log")[-1]["position"]
    agent.call("undo")
    row, *_ = [line for line in on_terminal(agent, 80, "log") if "bullet.revised" in line]
    assert f"(undone at {position + 1}) pat-001" in row


def test_footer_counts_removed_rules_by_themselves(agent: Agent) -> None:
    agent.call("remove", "pat-002")
    *_, footer = on_terminal(agent, 80, "list", "--removed")
    assert footer == "Listed 2 of 2 rules, and 1 removed rule. Sessions cited 0 of these rules."


def test_stopped_question_ends_its_line(agent: Agent) -> None:
    shown = plain(agent.sent(80, "trial", "start", typed=b"\x04", code=130))
    *_, first, second = shown.splitlines()
    assert first == "reflector: stopped. Everything recorded so far is kept. To continue, run the"
    assert second == "same command again"
