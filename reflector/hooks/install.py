"""Our hooks in a settings.json: putting them in, finding them, taking them out; text in, text out.

Invariant: nothing that is not ours is changed, not even its blanks. Installing twice is installing once, and a
text that was installed into and uninstalled from is the text from before; where that text held empty lists of
hooks, which look like what we leave behind, `differs_by_us` tells that it may be put back.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflector.hooks import fast
from reflector.hooks.json_text import MalformedJson, Node, appended, children, member, replaced, root, without

#: Claude Code's events that every version with hooks of ours in it knows, and seconds until it stops waiting.
#: A client refuses a file that names an event it does not know. Ours are back in milliseconds; SessionEnd's
#: time matters most: without one, all hooks of that event share 1.5 seconds, a slow machine's whole start.
EVENTS = {
    "SessionStart": 10,
    "SubagentStart": 10,
    "PreCompact": 10,
    "SubagentStop": 10,
    "Stop": 10,
    "SessionEnd": 10,
}
#: Where our environment is gone, Python's own exit code is 2, by which a hook forbids to stop or to compact.
_NEVER_A_VERDICT = "|| exit 0"
_PYTHON = re.compile(r"(?:.*/)?(?:python[\d.]*t?|pypy[\d.]*)(?:\.exe)?", re.IGNORECASE)
_OURSELVES = re.compile(r"(?:.*/)?reflector(?:\.exe)?", re.IGNORECASE)
#: What an installation calls; the second one is an older one's.
_SCRIPTS = ("/reflector/hooks/__main__.py", "/reflector/hooks/fast.py")
_BLANKS = " \t\r\n"
_CALLS_US = re.compile(r"\breflector(?:\.exe)?[\"']?\s+hook\b|\breflector[/\\]+hooks[/\\]+(?:fast|__main__)\.py\b")


@dataclass(frozen=True, slots=True)
class Handler:
    """One hook in a settings file that calls us."""

    event: str
    matcher: str
    command: str
    timeout: float | None
    own: bool
    """Written by us, or as we would; False for one that calls us in its own way, which we leave alone."""


#: What the agent runs.
SCRIPT = str(Path(fast.__file__).with_name("__main__.py"))


def hook_command(python: str = sys.executable, script: str = SCRIPT) -> str:
    """Return the command that the agent runs: its shell's words for the fastest start of the hook.

    Slashes also on Windows: the agent runs it by Git's bash, which takes a backslash for an escape. Raises
    ValueError where there is no path, or none that a settings file can hold.
    """
    if not python:
        raise ValueError("this Python does not know its own path; run reflector by the full path of its program")
    if sys.platform == "win32":
        python, script = Path(python).as_posix(), Path(script).as_posix()
    command = f"{shlex.join([python, '-I', '-S', script])} {_NEVER_A_VERDICT}"
    try:
        command.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{command!r} is not UTF-8; install reflector under another path") from None
    return command


def is_own(command: str) -> bool:
    """Return whether a command is the hook and nothing else, of this or another environment, in any form of ours."""
    # A backslash is an escape to one system's people and a separator to the other's.
    return any(_is_the_hook(text) for text in dict.fromkeys((command, command.replace("\\", "/"))))


def _is_the_hook(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    for end in (["||", "exit", "0"], ["||", "true"], ["||", ":"]):
        if words[-len(end) :] == end:
            words = words[: -len(end)]
    if words[:1] == ["exec"]:
        words = words[1:]
    match words:
        case [ourselves, "hook"]:
            return _OURSELVES.fullmatch(ourselves) is not None
        case [python, *flags, "-m", "reflector", "hook"]:
            return _PYTHON.fullmatch(python) is not None and all(flag[:1] == "-" for flag in flags)
        case [python, *flags, script] if script.endswith(_SCRIPTS):
            return _PYTHON.fullmatch(python) is not None and all(flag[:1] == "-" for flag in flags)
    return False


def handlers(text: str) -> list[Handler]:
    """Return every hook that calls us, in the order of the file. Raises MalformedJson."""
    found = []
    for path in _all(text) if text.strip(_BLANKS) else ():
        handler, matcher = path[-1].value, path[3].value.get("matcher")
        command = _command(handler)
        if (own := is_own(command)) or _CALLS_US.search(command):
            found.append(
                Handler(path[2].key, matcher if isinstance(matcher, str) else "", command, _timeout(handler), own)
            )
    return found


def install(text: str, command: str, events: Mapping[str, int] = EVENTS) -> str:
    """Return the text with our hook at each event; an older one of ours is replaced in its place.

    Raises MalformedJson where the text is not JSON, or something else is in the place of hooks. A blank text
    becomes a document.
    """
    if not text.strip(_BLANKS):
        text = "{}" + (text or "\n")
    _check(text, events)
    for event in sorted({path[2].key for path in _own(text)} - events.keys()):
        while path := next(_own(text, event), None):
            text = _dropped(text, path)
    for event, timeout in events.items():
        handler = {"type": "command", "command": command, "timeout": timeout}
        while len(paths := list(_own(text, event))) > 1:
            text = _dropped(text, paths[-1])
        if not paths:
            text = _added(text, event, {"hooks": [handler]})
        elif not _is_current(paths[0][-1].value, command):
            text = replaced(text, paths[0][-1], handler)
    return text


def uninstall(text: str) -> str:
    """Return the text without our hooks, and without the lists that held nothing else. Raises MalformedJson."""
    while text.strip(_BLANKS) and (path := next(_own(text), None)):
        text = _dropped(text, path)
    return text


def differs_by_us(text: str, before: str, events: Mapping[str, int] = EVENTS) -> bool:
    """Return whether our hooks are all that a text has over the one from before. Raises MalformedJson."""
    commands = {handler.command for handler in handlers(text) if handler.own}
    if any(handler.own for handler in handlers(before)):
        return False
    # By what they say: an older installation that was replaced may be spaced differently than a new one.
    return any(_said(install(before, command, events)) == _said(text) for command in commands)


def _said(text: str) -> str:
    """Return a document without its blanks, its keys in their order."""
    return json.dumps(root(text).value)


def is_empty(text: str) -> bool:
    """Return whether a text says nothing. Raises MalformedJson."""
    return not text.strip(_BLANKS) or root(text).value == {}


def _added(text: str, event: str, group: dict[str, Any]) -> str:
    document = root(text)
    hooks = member(text, document, "hooks")
    if hooks is None:
        return appended(text, document, {event: [group]}, "hooks")
    groups = member(text, hooks, event)
    if groups is None:
        return appended(text, hooks, [group], event)
    return appended(text, groups, group)


def _is_current(handler: dict[str, Any], command: str) -> bool:
    # A time that a person chose stays.
    return handler.get("type") == "command" and _command(handler) == command and _timeout(handler) is not None


def _command(handler: Any) -> str:
    """Return a handler's command with its arguments; "" where it has none."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return ""
    command: str = handler["command"]
    arguments = handler.get("args")
    if not isinstance(arguments, list):
        return command
    return shlex.join([command, *map(str, arguments)])


def _timeout(handler: dict[str, Any]) -> float | None:
    timeout = handler.get("timeout")
    return timeout if isinstance(timeout, int | float) and not isinstance(timeout, bool) else None


#: From the document down: itself, `hooks`, an event's groups, a group, its handlers, a handler.
_Path = list[Node]


def _all(text: str) -> Iterator[_Path]:
    """Yield every handler of every event, in the order of the file; what has another shape is passed over."""
    document = root(text)
    hooks = member(text, document, "hooks")
    if hooks is None or not isinstance(hooks.value, dict):
        return
    for groups in children(text, hooks):
        for group in children(text, groups) if isinstance(groups.value, list) else []:
            handlers = member(text, group, "hooks")
            if handlers is not None and isinstance(handlers.value, list):
                for handler in children(text, handlers):
                    yield [document, hooks, groups, group, handlers, handler]


def _own(text: str, event: str | None = None) -> Iterator[_Path]:
    """Handlers that are ours, of every event or of one."""
    return (path for path in _all(text) if event in (None, path[2].key) and is_own(_command(path[-1].value)))


def _dropped(text: str, path: _Path) -> str:
    """Return the text without the last of a path, and without what holds nothing else."""
    at = len(path) - 1
    while at > 1 and _holds_one(path[at - 1].value):
        at -= 1
    return without(text, path[at - 1], path[at])


def _holds_one(container: Any) -> bool:
    # A group without handlers does nothing, whatever it matches.
    return len(container) == 1 or (isinstance(container, dict) and container.keys() == {"matcher", "hooks"})


def _check(text: str, events: Mapping[str, int]) -> None:
    """Raise MalformedJson if hooks cannot be added to what is there."""
    document = _is(text, root(text), dict, "the document")
    hooks = member(text, document, "hooks")
    if hooks is None:
        return
    _is(text, hooks, dict, "hooks")
    for event in events:
        groups = member(text, hooks, event)
        if groups is None:
            continue
        for group in children(text, _is(text, groups, list, f"hooks.{event}")):
            handlers = member(text, _is(text, group, dict, f"a matcher group of {event}"), "hooks")
            if handlers is not None:
                for handler in children(text, _is(text, handlers, list, f"the hooks of a group of {event}")):
                    _is(text, handler, dict, f"a hook of {event}")


def _is(text: str, node: Node, kind: type, name: str) -> Node:
    if not isinstance(node.value, kind):
        raise MalformedJson(text, node.start, f"{name} is {_KINDS[type(node.value)]}, not {_KINDS[kind]}")
    return node


_KINDS = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a truth value",
    type(None): "null",
}
