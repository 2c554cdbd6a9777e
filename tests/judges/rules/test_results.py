"""What a call does, by its name and command line, and how it ended, by what it printed."""

import json
from pathlib import Path

import pytest

from reflector.judges.reading.steps import Step, commands_in, is_run, read_call, read_result
from reflector.judges.reading.wordings import Wording, all_wordings
from reflector.transcripts.message import ToolCall
from tests.conftest import assert_linear

#: How a call ended, whether its result was flagged as an error, its command, and what it printed.
_TABLE = Path(__file__).with_name("outcomes.tsv").read_text("utf-8").split("\n")[1:-1]


def bash(command: str) -> Step:
    return read_call(ToolCall("c", "Bash", {"command": command}))


@pytest.mark.parametrize(
    ("ending", "flagged", "command", "text"), [line.split("\t") for line in _TABLE]
)
def test_what_a_command_printed_says_how_it_ended(
    ending: str, flagged: str, command: str, text: str
) -> None:
    step, printed = bash(json.loads(f'"{command}"')), json.loads(f'"{text}"')
    assert read_result(step, printed, flagged == "error").ending == ending


@pytest.mark.parametrize(
    "slip",
    [
        "File has not been read yet.",
        "Found 2 matches of the string to replace",
        "Sibling tool call errored",
    ],
)
def test_slips_of_the_edit_tool_are_mechanics(slip: str) -> None:
    step = read_call(ToolCall("c", "Edit", {"file_path": "a.py"}))
    read = read_result(step, f"<tool_use_error>{slip}</tool_use_error>", True)
    assert read.ending == "mechanics"


#: Commands and calls of tools by what they do.
COMMANDS = {
    "test": (
        "cd web && npm run test:unit 2>&1 | tail -30",
        "CI=1 timeout 60 uv run pytest -x",
        "./gradlew :app:testDebug",
    ),
    "types": ("npx tsc --noEmit",),
    "lint": ("cargo clippy -- -D warnings",),
    "build": ("go build ./... && go vet ./...",),
    "ci": ("gh run watch 12",),
    "install": ("npm ci",),
    "ship": (
        "git commit -m 'run npm test before pushing'",
        "git add -A && git commit -q -m x && git push",
    ),
    "run": ("npm run dev", "ssh web1 'systemctl restart app'", "python - <<'X'\nimport pytest\nX"),
    "change": ("cat > a.sh <<'E'\nnpm test\nE", "sed -i s/a/b/ x.py"),
    "revert": ("git checkout -- src/a.py",),
    "tidy": ("", "git checkout -b feature", "npx eslint src --fix"),
    "look": ("grep -rn 'pytest' .", "cd a && git diff --stat"),
}
TOOLS: list[tuple[str, dict[str, object], str]] = [
    ("Edit", {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, "change"),
    ("Read", {"file_path": "/a/b.py"}, "look"),
    ("TodoWrite", {"todos": []}, "admin"),
    ("Agent", {"description": "Review the plan"}, "look"),
    ("ExitPlanMode", {}, "admin"),
    ("mcp__browser__computer", {"action": "screenshot"}, "run"),
    ("BashOutput", {"bash_id": "b1"}, "poll"),
]


@pytest.mark.parametrize("kind", COMMANDS)
def test_command_is_classified_by_the_program_it_runs(kind: str) -> None:
    assert {command: bash(command).kind for command in COMMANDS[kind]} == dict.fromkeys(
        COMMANDS[kind], kind
    )


def test_commands_of_a_call_are_in_their_order() -> None:
    command = "cd app && bash -c 'git push'; pytest -x"
    assert commands_in(command) == (
        ("look", "cd app"),
        ("run", "bash -c Q"),
        ("test", "pytest -x"),
        ("ship", "git push"),
    )


@pytest.mark.parametrize(("name", "given", "kind"), TOOLS)
def test_a_tool_is_placed_by_its_name(name: str, given: dict[str, object], kind: str) -> None:
    assert read_call(ToolCall("c", name, given)).kind == kind


RUNS = """\
cd a && FOO=1 timeout 60 uv run pytest -x 2>&1 \
 | grep -A 3 -E "passed|failed" | tail -5; echo "exit: $?"
npx eslint . || true
npm run build && npm test | tee out.log
docker compose up -d
npm start &
""".splitlines()
PRINTS = """\
npm test && cat notes.md
cat x | pytest
pytest | cat README
pytest | grep -v foo notes.txt
go test ./... $(cat notes)
echo 'all 14 tests passed'; pytest
ls && go test ./...
git log
curl https://example.com/tests
sed -n 1,5p pytest.log
docker compose config
python - <<E
npm test | grep -rn perfect
npm test | grep perfect -f words
npm test | sed 'r notes'
npm test | tail 12
source notes.sh; npm test
pytest() { cat notes; }; pytest
pytest --help
""".splitlines()


def test_a_run_prints_nothing_but_its_result() -> None:
    calls = {
        command: is_run(ToolCall("c", "Bash", {"command": command})) for command in [*RUNS, *PRINTS]
    }
    assert calls == dict.fromkeys(RUNS, True) | dict.fromkeys(PRINTS, False)
    assert not is_run(ToolCall("c", "mcp__shell__run", {"command": "pytest"}))


@pytest.mark.parametrize("row", all_wordings(), ids=lambda row: row.id)
def test_row_matches_its_example_but_no_counterexample(row: Wording) -> None:
    assert row.expression.search(row.example)
    assert not row.expression.search(row.counter)
    assert [one.id for one in all_wordings()].count(row.id) == 1


@pytest.mark.slow
@pytest.mark.parametrize("text", ["no ", "1 "])
def test_no_row_is_quadratic_on_long_dull_text(text: str) -> None:
    for row in all_wordings():
        assert_linear(
            lambda size, row=row: row.expression.search(text * (size // len(text))), 12_500
        )
