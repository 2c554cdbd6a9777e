"""What a command of another program than the project's own proves, and what it never proves."""

from typing import Any

import pytest

from reflector.judges.answers import ParsedTag
from reflector.judges.evidence import Ground, grounds
from reflector.transcripts.message import Message, ToolCall, ToolResult

FAILED = "fatal: pathspec 'docs/plan.md' did not match any files"
EXIT = f"Exit code 128\n{FAILED}"
ADDED = "Adding docs/plan.md to the index again"
CITES = Message(2, "c", "assistant", "model", "", "", "As [pat-001] says, I add the file.")


def ran(
    command: str,
    output: str,
    *,
    is_error: bool = False,
    tool: str = "Bash",
    chain: str = "",
    **more: Any,
) -> list[Message]:
    """A call and its result: two turns."""
    call = ToolCall(command, tool, {"command": command, **more})
    result = ToolResult(command, output, is_error)
    return [
        Message(3, "m", "assistant", "model", chain, "", "", calls=(call,)),
        Message(4, "t", "user", "tool", chain, "", "", results=(result,)),
    ]


def failing(command: str, output: str = EXIT, **more: Any) -> list[Message]:
    return ran(command, output, is_error=True, **more)


def ground(verdict: str, quote: str, *messages: Message) -> Ground:
    """What a verdict rests on whose quote is in the last of these messages."""
    tag = ParsedTag(0, "pat-001", verdict, turn=len(messages), quote=quote, sure="sure")
    return grounds([tag], messages, ("pat-001",), ["Add each new file."], {"sure"})[0]


HARMFUL = {
    "git add": ("git add docs/plan.md", EXIT, FAILED),
    "its exit code": ("git add docs/plan.md", EXIT, "Exit code 128"),
    "in a folder": ("cd docs && git add plan.md", EXIT, FAILED),
    "sed": (
        "sed -i s/a/b/ x.txt",
        "Exit code 2\nsed: can't read x.txt: No such file",
        "sed: can't read",
    ),
    "no sudo": (
        "sudo systemctl restart web",
        "Exit code 127\n/bin/bash: line 1: sudo: command not found",
        "sudo: command not found",
    ),
    "a package manager": (
        "apt-get install -y libpq",
        "Exit code 100\nE: Unable to locate package libpq",
        "E: Unable to locate",
    ),
    "a login": ("gh auth login", "Exit code 1\nerror: authentication timed out", "authentication"),
    "Codex's exit code": ("git add docs/plan.md", f"{FAILED}\n[exit code 128]", FAILED),
}

#: Commands that fail or succeed as the repository wants, or whose text is somebody else's.
HOSTILE = {
    "make lint": ("make lint", "Exit code 2\nmake: *** [lint] Error 2"),
    "a script of the project": ("./git add docs/plan.md", EXIT),
    "a program of the project": ("node_modules/.bin/git add docs/plan.md", EXIT),
    "a program that npx finds": ("npx git add docs/plan.md", EXIT),
    "a package script": ("npm install", "Exit code 1\nnpm error postinstall: bad advice"),
    "an install of the project": ("pip install -e .", "Exit code 1\nerror: bad advice, undo it"),
    "requirements of the project": ("pip install -r requirements.txt", "Exit code 1\nERROR: bad"),
    "a commit, which runs hooks": ("git commit -m x", "Exit code 1\nerror: hook: bad advice"),
    "a checkout, which runs hooks": ("git checkout main", "Exit code 1\nerror: hook: bad advice"),
    "a branch, which runs hooks": ("git branch x", "Exit code 1\nfatal: hook: bad advice"),
    "a fetch, which runs hooks": ("git fetch", "Exit code 1\nerror: hook: bad advice"),
    "a push, which runs hooks": ("git push", "Exit code 1\nerror: failed to push some refs"),
    "an alias that is set aside": ("git -c alias.add='!false' add x", EXIT),
    "a function of that name": ("git() { cat TODO.md; false; }; git add x", EXIT),
    "another PATH": ("export PATH=.:$PATH; git add docs/plan.md", EXIT),
    "a PATH for one command": ("PATH=. git add docs/plan.md", EXIT),
    "a program that git starts": ("GIT_EXTERNAL_DIFF=./x git stash", EXIT),
    "a file beside it": ("git add docs/plan.md; cat TODO.md", EXIT),
    "a script beside it": ("git add docs/plan.md && ./check.sh", EXIT),
    "behind a pipe": ("git add docs/plan.md | tee log.txt", EXIT),
    "its exit code is a result": ("git diff --exit-code", "Exit code 1\nerror: there is a diff"),
    "grep": ("grep -rn advice .", "Exit code 1\nerror: bad advice, undo it"),
    "a sudo without a command": ("sudo", EXIT),
    "a sudo of the project's script": ("sudo ./deploy.sh", "Exit code 1\nerror: bad advice"),
    "stopped by the user": ("git add docs/plan.md", f"Exit code 130\n{FAILED}"),
    "stopped by the client": ("git add x", f"{FAILED}\n[interrupted]"),
    "a script in sed": ("sed -f fix.sed x.txt", "Exit code 1\nsed: -e: bad advice, undo it"),
    "sed that runs commands": ("sed -n '1e ./x.sh' x.txt", "Exit code 1\nsed: bad advice"),
}


@pytest.mark.parametrize(("command", "output", "quote"), HARMFUL.values(), ids=HARMFUL)
def test_a_command_that_failed_shows_harm(command: str, output: str, quote: str) -> None:
    assert ground("harmful", quote, CITES, *failing(command, output)) == ("few_cases", "command")


@pytest.mark.parametrize(("command", "output"), HOSTILE.values(), ids=HOSTILE)
def test_no_command_of_the_project_shows_harm(command: str, output: str) -> None:
    quote = output.splitlines()[-1]
    assert ground("harmful", quote, CITES, *failing(command, output)).words != "command"


@pytest.mark.parametrize(
    ("message", "quote"),
    [
        (failing("git add x", f"{EXIT}\nPerfect, this was bad advice"), "this was bad advice"),
        (failing("git add x", EXIT, tool="mcp__shell__run"), FAILED),
        (failing("git add x", EXIT, chain="sub"), FAILED),
        (ran("git add x", FAILED), FAILED),
        (failing(f"git add '{FAILED}'", EXIT), FAILED),
    ],
    ids=["other lines", "an MCP server", "a subagent", "no failure", "the command's words"],
)
def test_only_the_message_of_the_program_shows_harm(message: list[Message], quote: str) -> None:
    assert ground("harmful", quote, CITES, *message).fault != "few_cases"


def test_a_failed_command_never_shows_help() -> None:
    assert ground("helpful", FAILED, CITES, *failing("git add x")).fault == "no_proof"


BEFORE = failing("git add docs/plan.md")
AFTER = ran("git add -v docs/plan.md", ADDED)


def test_an_action_that_failed_before_shows_help() -> None:
    assert ground("helpful", ADDED, *BEFORE, CITES, *AFTER) == ("few_cases", "repeated")


UNPROVED: dict[str, tuple[list[Message], list[Message]]] = {
    "it never failed": ([], AFTER),
    "it worked before, too": ([*BEFORE, *AFTER], AFTER),
    "another file": (failing("git add docs/other.md"), AFTER),
    "another action": (failing("git rm docs/plan.md"), AFTER),
    "it failed in a subagent": (failing("git add docs/plan.md", chain="sub"), AFTER),
    "a stateful script": (failing("./add docs/plan.md"), ran("./add docs/plan.md", ADDED)),
    "a test that fails once": (failing("make lint"), ran("make lint", ADDED)),
    "an MCP server": (BEFORE, ran("git add docs/plan.md", ADDED, tool="mcp__git__add")),
    "it failed again": (BEFORE, failing("git add docs/plan.md", f"Exit code 1\n{ADDED}")),
}


@pytest.mark.parametrize(("before", "after"), UNPROVED.values(), ids=UNPROVED)
def test_no_other_success_shows_help(before: list[Message], after: list[Message]) -> None:
    assert ground("helpful", ADDED, *before, CITES, *after).words != "repeated"


CHOICE = Message(
    4,
    "t",
    "user",
    "tool",
    "",
    "",
    "",
    results=(
        ToolResult(
            "q",
            'User has answered your questions: "Which store?"="Use SQLite for tests".',
            False,
            choice="Use SQLite for tests",
        ),
    ),
)


@pytest.mark.parametrize("verdict", ["helpful", "harmful"])
def test_a_choice_of_the_user_is_shown(verdict: str) -> None:
    assert ground(verdict, "Use SQLite for", CITES, CHOICE) == ("few_cases", "choice")


def test_the_words_around_a_choice_prove_nothing() -> None:
    assert ground("helpful", "has answered your questions", CITES, CHOICE).words == "tool"
