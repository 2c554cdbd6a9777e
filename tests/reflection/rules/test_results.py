"""What a call does, by its name and command line, and how it ended, by what it printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflector.reflection.rules.outcomes import read_result
from reflector.reflection.rules.steps import Step, read_call
from reflector.transcripts.message import ToolCall

#: How a call ended, whether its result was flagged as an error, its command, and what it printed.
_TABLE = Path(__file__).with_name("outcomes.tsv").read_text("utf-8").split("\n")[1:-1]


def bash(command: str) -> Step:
    return read_call(ToolCall("c", "Bash", {"command": command}))


@pytest.mark.parametrize(("ending", "flagged", "command", "text"), [line.split("\t") for line in _TABLE])
def test_what_a_command_printed_says_how_it_ended(ending: str, flagged: str, command: str, text: str) -> None:
    step, printed = bash(json.loads(f'"{command}"')), json.loads(f'"{text}"')
    assert read_result(step, printed, flagged == "error").ending == ending


@pytest.mark.parametrize(
    "text",
    [
        "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
        "<tool_use_error>Found 2 matches of the string to replace, but replace_all is false.</tool_use_error>",
        "<tool_use_error>Sibling tool call errored</tool_use_error>",
    ],
)
def test_slips_of_the_edit_tool_are_mechanics(text: str) -> None:
    step = read_call(ToolCall("c", "Edit", {"file_path": "a.py"}))
    assert read_result(step, text, True).ending == "mechanics"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("npm test", "test"),
        ("cd web && npm run test:unit 2>&1 | tail -30", "test"),
        ("CI=1 timeout 60 uv run pytest tests -x", "test"),
        ("docker compose exec -T api pytest -q", "test"),
        ("./gradlew :app:testDebug", "test"),
        ("mix test test/a_test.exs", "test"),
        ("git commit -m 'run npm test before pushing'", "ship"),
        ("git add -A && git commit -q -m x && git push", "ship"),
        ("npx tsc --noEmit", "types"),
        ("cargo clippy -- -D warnings", "lint"),
        ("npx eslint src --fix", "tidy"),
        ("npm run build", "build"),
        ("go build ./... && go vet ./...", "build"),
        ("npm run dev", "run"),
        ("curl -s localhost:3000/health", "run"),
        ("ssh web1 'systemctl restart app'", "run"),
        ("python - <<'X'\nimport pytest\nX", "run"),
        ("cat > a.sh <<'E'\nnpm test\nE", "change"),
        ("sed -i s/a/b/ x.py", "change"),
        ("git checkout -- src/a.py", "revert"),
        ("git checkout -b feature", "tidy"),
        ("grep -rn 'pytest' .", "look"),
        ("cd a && git diff --stat", "look"),
        ("gh run watch 12", "ci"),
        ("npm ci", "install"),
        ("", "tidy"),
    ],
)
def test_a_command_is_placed_by_what_it_runs_not_by_what_it_mentions(command: str, kind: str) -> None:
    assert bash(command).kind == kind


@pytest.mark.parametrize(
    ("name", "given", "kind"),
    [
        ("Edit", {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, "change"),
        ("Read", {"file_path": "/a/b.py"}, "look"),
        ("TodoWrite", {"todos": []}, "admin"),
        ("Agent", {"description": "Review the plan"}, "review"),
        ("Task", {"description": "Write the parser"}, "delegate"),
        ("ExitPlanMode", {}, "plan"),
        ("mcp__browser__computer", {"action": "screenshot"}, "run"),
        ("BashOutput", {"bash_id": "b1"}, "poll"),
    ],
)
def test_a_tool_is_placed_by_its_name(name: str, given: dict[str, object], kind: str) -> None:
    assert read_call(ToolCall("c", name, given)).kind == kind
