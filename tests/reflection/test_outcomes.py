"""How results are read: counted summaries first, then lines, and mechanics never as failures."""

from __future__ import annotations

import pytest

from reflector.reflection.outcomes import read_result, signature
from reflector.reflection.steps import read_call
from reflector.transcripts.message import ToolCall, ToolResult


def ending(command: str, text: str, *, is_error: bool = False) -> str:
    step = read_call(ToolCall("c", "Bash", {"command": command}))
    return read_result(step, ToolResult("c", text, is_error)).ending


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("pytest -q", "....\n===== 4 passed in 0.10s =====", "passes"),
        ("pytest -q", "..F\n===== 1 failed, 2 passed in 0.10s =====", "fails"),
        ("go test ./... | tail", "ok  \tapp/a\t0.1s\nFAIL\tapp/b\t0.2s\nFAIL", "fails"),
        ("bun test", "error: item 3 failed: 12\n 40 pass\n 0 fail", "passes"),
        ("npm test", "Tests:       1 failed, 9 passed, 10 total", "fails"),
        ("npm test", "something without a summary", "silent"),
        ("npx tsc --noEmit", "", "passes"),
        ("npx tsc --noEmit | head", "src/a.ts(1,2): error TS2304: Cannot find name 'x'.", "fails"),
        ("npm run lint", "✖ 3 problems (0 errors, 3 warnings)", "passes"),
        ("ssh web1 'systemctl restart app'", "app.service: Failed with result 'exit-code'.", "fails"),
        ("git push", "To example.org:a/b.git\n   1a2b3c4..5d6e7f8  main -> main", "passes"),
        ("git push", " ! [rejected]        main -> main (fetch first)", "fails"),
        ("npm run bulid", 'npm error Missing script: "bulid"', "unusable"),
        ("cat notes.txt", "Traceback (most recent call last)", "silent"),
    ],
)
def test_an_unflagged_result_is_read_by_its_text(command: str, text: str, expected: str) -> None:
    assert ending(command, text) == expected


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("pytest", "Exit code 1\nE   AssertionError\n=== 1 failed in 0.1s ===", "fails"),
        ("frobnicate", "Exit code 127\nbash: frobnicate: command not found", "unusable"),
        ("grep x a.txt", "Exit code 1", "mechanics"),
        ("cat b.txt", "Exit code 1\ncat: b.txt: No such file or directory", "mechanics"),
        ("npm install", "Exit code 1\nnpm error code ERESOLVE", "fails"),
    ],
)
def test_a_flagged_result_is_a_failure_only_if_it_is_not_mechanics(command: str, text: str, expected: str) -> None:
    assert ending(command, text, is_error=True) == expected


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
    assert read_result(step, ToolResult("c", text, True)).ending == "mechanics"


def test_the_same_error_has_the_same_signature_in_another_folder_and_at_another_line() -> None:
    assert signature("/a/b/x.py:12: KeyError: 'id'") == signature("/c/x.py:99: KeyError: 'id'")
    assert signature("KeyError: 'id'") != signature("TypeError: 'id'")
