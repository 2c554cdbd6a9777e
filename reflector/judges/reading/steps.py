"""The kind of a tool call (look, change, check, run, ship, tidy), and how it ended.

Invariant: the kind depends only on the call. Reading a file proves nothing, so a command of unknown
kind is `run`, never `check`.

The end of a call is read from its answer and its kind. `is_error` is one of several signs: a pipe
hides an exit code, a flagged error may be a detail of editing or of the shell, and only a check can
pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, cast, get_args

from reflector.judges.reading.wordings import Wording, expression, first, wordings
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.message import ToolCall

#: Kinds whose success is proof of something.
Check = Literal["test", "types", "lint", "build", "ci"]
_Work = Literal["install", "ship", "run", "change", "revert"]
_Aside = Literal["poll", "tidy", "look", "admin"]
Kind = Check | _Work | _Aside

CHECKS: frozenset[str] = frozenset(get_args(Check))
#: Kinds of steps that are about their files.
_WITH_FILES = frozenset({"change", "test"})


class Step(NamedTuple):
    """One call, read.

    kind     its purpose
    command  the shell command or the target, one line, at most 160 characters
    files    base names of the files that it names; () unless its kind is change or test
    is_mcp   it calls a tool of an MCP server
    """

    kind: Kind
    command: str
    files: tuple[str, ...] = ()
    is_mcp: bool = False


#: Characters of a command that are read.
_READ = 4 * 1024
#: A command that starts the result of a build is a `run`, like every command of unknown kind.
_START = "command-start"
_RUN_IDS = frozenset({"command-test", "command-types", "command-lint", "command-build", _START})
#: If a call has several commands, its kind is the one of theirs that comes first here.
_KINDS: tuple[Kind, ...] = (
    "revert",
    "test",
    "ci",
    "build",
    "types",
    "lint",
    "ship",
    "install",
    "run",
    "change",
    "tidy",
    "look",
)


_SHELLS = ("Bash", "PowerShell", "Shell")
_NAMES_OF_TOOLS: dict[Kind, str] = {
    "look": (
        "Read Grep Glob LS NotebookRead WebSearch LSP WebFetch ToolSearch Task Agent"
        " ListMcpResourcesTool ReadMcpResourceTool"
    ),
    "change": "Edit MultiEdit Write NotebookEdit",
    "poll": "BashOutput TaskOutput AgentOutputTool Monitor",
    "tidy": "KillShell KillBash TaskStop",
}
_TOOLS = {name: kind for kind, names in _NAMES_OF_TOOLS.items() for name in names.split()}
#: The arguments that name the target of a tool, the most precise one first.
_TARGETS = ("file_path", "notebook_path", "path", "pattern", "url", "query", "description")


def read_call(call: ToolCall) -> Step:
    """Return the step of one call."""
    arguments = call.input
    if is_shell(call):
        return _read_command(str(arguments.get("command") or "")[:_READ])
    kind = _TOOLS.get(call.name)
    if kind is not None:
        target = str(next(filter(None, map(arguments.get, _TARGETS)), ""))
        return _step(kind, f"{call.name} {_one_line(target)}", target)
    if call.name.startswith("mcp__"):
        action = str(arguments.get("action") or "")
        return Step("run", f"{call.name} {action}".strip()[:160], is_mcp=True)
    return Step("admin", call.name)


def _step(kind: Kind, command: str, names_files: str) -> Step:
    return Step(kind, command[:160], files_in(names_files) if kind in _WITH_FILES else ())


def _read_command(command: str) -> Step:
    """Return the step of a command. A look that writes a file is a change, and one at the output of
    a background task is a poll.
    """
    kind = _kind_of(command)
    if kind == "look" and "/dev/null" not in command:
        is_change = expression("writes-file").search(_without_quotes(command))
        kind = "change" if is_change else "look"
    if kind in ("look", "tidy") and expression("task-output").search(command):
        kind = "poll"
    return _step(kind, _one_line(command), command)


def is_shell(call: ToolCall) -> bool:
    """Return whether a call runs a command in the client's own shell."""
    return call.name in _SHELLS


def is_run(call: ToolCall) -> bool:
    """Return whether a call is a command that only tests, builds, checks or starts the result of a
    build. No part of it prints a file, a page, history or words of its own.
    """
    command = str(call.input.get("command") or "")
    if not is_shell(call) or len(command) > _READ or expression("prints-more").search(command):
        return False
    runs = [row for row in wordings("command") if row.id in _RUN_IDS]
    has_run = False
    for segment, is_piped in _segments(_without_exit_code(command)):
        if any(row.expression.match(segment) for row in runs):
            has_run = True
            continue
        silent = expression("filter" if is_piped else "silent-part")
        if segment and not silent.fullmatch(segment):
            return False
    return has_run


def _without_exit_code(command: str) -> str:
    """Return a command without words in quotes, and without the parts that print an exit code."""
    quoted = expression("quoted")
    with_variables = quoted.sub(lambda match: match[0] if "$" in match[0] else "Q", command)
    return _without_quotes(expression("echo-exit-code").sub("", with_variables))


def _without_quotes(command: str) -> str:
    return expression("quoted").sub("Q", command)


def _segments(script: str) -> Iterator[tuple[str, bool]]:
    """Yield each command of a script, and whether the one before it is piped into it."""
    begin = 0
    is_piped = False
    for separator in expression("separator").finditer(script):
        yield _unwrapped(script[begin : separator.start()]), is_piped
        begin = separator.end()
        is_piped = separator[0] == "|"
    yield _unwrapped(script[begin:]), is_piped


def _kind_of(command: str) -> Kind:
    """Return the kind of a call's command: of all the commands in it, the kind that `_KINDS` has
    first.
    """
    kinds = {kind for kind, _ in commands_in(command)}
    return next((kind for kind in _KINDS if kind in kinds), "tidy")


@lru_cache(maxsize=128)  # the same tests are run again and again
def commands_in(command: str) -> tuple[tuple[Kind, str], ...]:
    """Return each command in a call's command, with its kind."""
    script = expression("heredoc").sub(" ", command)
    inner_scripts = [match[2] for match in expression("inner-shell").finditer(script)]
    return tuple(
        (_kind_of_segment(segment), segment)
        for text in (script, *inner_scripts)
        for segment, _ in _segments(_without_quotes(text))
        if segment
    )


def _kind_of_segment(segment: str) -> Kind:
    rows = (row for row in wordings("command") if row.id != _START)
    return cast(Kind, next((row.says for row in rows if row.expression.match(segment)), "run"))


def _unwrapped(segment: str) -> str:
    """Return a segment without at most eight words like `cd x`, `VAR=1`, `npx` and `timeout 60`."""
    rest = segment.strip().lstrip("({ ")
    for _ in range(8):
        match = expression("wrapper").match(rest)
        if match is None:
            break
        rest = rest[match.end() :].lstrip()
    return expression("redirection").sub("", rest).strip()


def files_in(text: str) -> tuple[str, ...]:
    """Return the base names of files in a text, in order, without duplicates, at most 16."""
    looked_at = text[:4000].replace("\\", "/")
    names = [name.lower() for name in expression("file-name").findall(looked_at)]
    no_file = expression("not-a-file")
    files = [name for name in names if 4 <= len(name) <= 60 and not no_file.match(name)]
    return tuple(dict.fromkeys(files))[:16]


def _one_line(text: str) -> str:
    return " ".join(text.split())


#: `ran` is a command that ended without an error: proof only if it had failed before.
Ending = Literal["passes", "fails", "ran", "mechanics", "silent"]

#: Kinds whose output is searched for failures. The text of a file that was read is not a result.
_TELLING = CHECKS | {"run", "install", "ship"}
_ANSI = lazy_pattern(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class RunEnd(NamedTuple):
    """The end of a call.

    ending  passes or fails; `silent` if the output shows neither, for example if an edit succeeded;
            `mechanics` for a slip of the agent's own tool, which is not a failure of the work
    quote   the decisive line as printed, at most 240 characters
    rule    the id of the wording that matches it
    """

    ending: Ending
    quote: str
    rule: str


_SILENT = RunEnd("silent", "", "")
#: The characters that are read of the output of a command that is not a check, because a longer
#: one contains text of all kinds.
_LONG = 2000
_HAS_WORD = lazy_pattern(r"\w{2}")


def read_result(step: Step, text: str, is_error: bool) -> RunEnd:
    """Return how a call with this output ended.

    Only the output of checks and commands is read. Another call (an edit, a revert, a tool of an
    MCP server) is silent, unless its result is flagged as an error.
    """
    is_silent = step.kind not in _TELLING or step.is_mcp
    if is_silent and not is_error:
        return _SILENT
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return _read_error(step, text) if is_error else _read_output(step, text)


def _read_output(step: Step, text: str) -> RunEnd:
    """Return how a call without the error flag ended. The text decides: a runner's counts, then a
    line with a known end. A check without complaints passes; a test must show its result.
    """
    is_check = step.kind in CHECKS
    counts = wordings("counted", "check") if is_check else wordings("counted")
    lines = text if is_check else text[:_LONG]
    match = first(counts, text) or first(wordings("line"), lines)
    if match is not None:
        return _end_at(*match, text)
    if _goes_on(text) or step.kind in ("test", "ci"):
        return _SILENT
    last_line = _last_line(text) or "no output"
    if not is_check:
        return RunEnd("ran", last_line, "ran")
    has_finding = expression("check-finding").search(text)
    return _SILENT if has_finding else RunEnd("passes", last_line, "no-complaint")


def _goes_on(text: str) -> bool:
    return "running in background" in text[:400] or "<status>running" in text[:200]


def _read_error(step: Step, text: str) -> RunEnd:
    """Return how a call ended whose result is flagged as an error.

    A slip of the tool is not a failure of the work, unless a check found it. Another error is a
    failure, quoted by the line that reports it, else by the last line.
    """
    slip = first(wordings("mechanics"), text)
    if slip is not None and not _is_finding(step, slip[0], text):
        return RunEnd("mechanics", "", slip[0].id)
    if step.kind in ("look", "tidy", "admin"):
        return RunEnd("mechanics", "", "flagged-look")
    printed = wordings("counted", "check", "line")
    failing = [row for row in printed if row.says == "fails" and row.id != "exit-code"]
    match = first(failing, text)
    if match is not None:
        return _end_at(*match, text)
    quote = _last_line(expression("exit-code-line").sub("", text.lstrip())) or _last_line(text)
    return RunEnd("fails", quote, "flagged-error")


def _is_finding(step: Step, slip: Wording, text: str) -> bool:
    """Return whether a slip is the result of a check. A compiler that misses a file has found
    something; an `ls` that misses one has not.
    """
    return slip.id == "wrong-place" and step.kind in CHECKS and ": cd: " not in text


def _end_at(row: Wording, match: re.Match[str], text: str) -> RunEnd:
    """Return the end that a wording shows, with its line."""
    start = text.rfind("\n", 0, match.start() + 1) + 1
    if match[0].startswith("\n"):
        start = match.start() + 1
    end = text.find("\n", max(match.end() - 1, start))
    line = text[start:end] if end >= 0 else text[start:]
    return RunEnd("passes" if row.says == "passes" else "fails", _one_line(line)[:240], row.id)


def _last_line(text: str) -> str:
    """Return the last line with words, which shows how a run went."""
    lines = reversed(text.strip().splitlines()[-12:])
    return _one_line(next((line for line in lines if _HAS_WORD.search(line)), ""))[:240]
