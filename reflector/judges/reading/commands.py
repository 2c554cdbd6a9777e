"""Commands of programs that the project does not decide: git, sed, a package manager, a login.

Invariant: a repository can make its own scripts fail or succeed. So this module reads a command
only if it runs one known program by its plain name and nothing else: no other PATH, function, pipe
or script, and no action of git that runs the project's hooks. Commands whose exit code is a result
(grep, diff, test) are not read.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from reflector.judges.reading.steps import is_shell
from reflector.judges.reading.wordings import expression
from reflector.transcripts.message import ToolCall, ToolResult

#: Actions of git that run no hook of the project, because they move no reference.
_GIT = frozenset("add rm mv restore apply init".split())
#: Programs that are read with any arguments, and those that are read with one certain argument.
_PACKAGES = frozenset("apt apt-get dnf yum pacman zypper apk brew snap gem".split())
_LOGINS = {
    "gh": "auth",
    "docker": "login",
    "aws": "sso",
    "az": "login",
    "gcloud": "auth",
    "heroku": "login",
    "vercel": "login",
}
_PIP = frozenset(("pip", "pip3"))
#: Exit codes of a shell that ended a command: by a signal or a time limit.
_STOPPED = frozenset((124, 130, 137, 143))
_INTERRUPTED = "[interrupted]"


class Action(NamedTuple):
    """The action of a command. The same action has the same program, verb and targets."""

    program: str
    verb: str
    targets: tuple[str, ...]


def action_of(call: ToolCall) -> Action | None:
    """Return the action of a command of another program; None for every other call."""
    command = str(call.input.get("command") or "")
    if not is_shell(call) or expression("other-shell").search(command):
        return None
    actions = []
    for part in re.split(r"&&|;|\n", command):
        try:
            words = shlex.split(part)
        except ValueError:
            return None
        if words and words[0] != "cd":
            actions.append(_action(words))
    return actions[0] if len(actions) == 1 else None


def _action(words: list[str]) -> Action | None:
    """Return the action of a command; None if it is not read. If sudo runs a command that is not
    read, the action is sudo's own, which may refuse.
    """
    if words[0] == "sudo" and len(words) > 1:
        return _action(words[1:]) or Action("sudo", words[1], tuple(words[2:]))
    program = words[0]
    arguments = [word for word in words[1:] if not word.startswith("-")]
    verb = arguments[0] if arguments else ""
    options = [word for word in words[1:] if word.startswith("-")]
    if not _is_read(program, verb, arguments, options):
        return None
    return Action(program, verb, tuple(arguments[1:]))


def _is_read(program: str, verb: str, arguments: list[str], options: list[str]) -> bool:
    """Return whether a command is one of those that run nothing of the project."""
    if program == "git":
        # `git -c` may define another action.
        return verb in _GIT and not any(option.startswith("-c") for option in options)
    if program == "sed":
        return not any(map(expression("sed-runs").search, (*arguments[:1], *options)))
    if program in _PIP:
        names = all(map(expression("package").fullmatch, arguments))
        return verb == "install" and names and not {"-e", "-r", "-c"}.intersection(options)
    is_login = verb != "" and _LOGINS.get(program) == verb
    return program in _PACKAGES or is_login


def failure_words(call: ToolCall, result: ToolResult) -> str:
    """Return the exit code and the message of a command that failed, "" for every other call.

    A `sudo` of the project's script fails as the script does, so only sudo's own message is
    returned.
    """
    action = action_of(call)
    if action is None or not has_failed(result):
        return ""
    names = re.escape(action.program)
    own = rf"(?:.*\b)?{names}: .*"
    message = own if action.program == "sudo" else rf"{own}|(?i:fatal|error|e|warning): .*"
    lines = [line for line in result.text.splitlines() if re.fullmatch(message, line.strip())]
    code = expression("ended").search(result.text)
    if code is not None and action.program != "sudo":
        lines.insert(0, code[0])
    return "\n".join(lines)


def has_failed(result: ToolResult) -> bool:
    """Return whether a command ended on its own with an exit code that is not 0."""
    ended = expression("ended").search(result.text)
    if ended is None or _INTERRUPTED in result.text:
        return False
    return int(ended[1] or ended[2]) not in (0, *_STOPPED)
