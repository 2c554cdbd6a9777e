"""Our hooks in the text of an agent's settings: added, found and removed; text in, text out.

Invariant: what the settings say beside our hooks stays, in its order, and the text keeps its indentation, line ends
and blanks around the document. A text that cannot be written back without a loss is refused. Installing twice is
installing once.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from reflector.hooks import fast

#: Claude Code's events that every version with hooks of ours in it knows, and seconds until it stops waiting.
#: A client refuses a file that names an event it does not know. Ours are back in milliseconds; SessionEnd's
#: time matters most: without one, all hooks of that event share 1.5 seconds, a slow machine's whole start.
EVENTS = dict.fromkeys(("SessionStart", "SubagentStart", "PreCompact", "SubagentStop", "Stop", "SessionEnd"), 10)
#: Where our environment is gone, Python's own exit code is 2, by which a hook forbids to stop or to compact.
_NEVER_A_VERDICT = "|| exit 0"
_PYTHON = re.compile(r"(?:.*/)?(?:python[\d.]*t?|pypy[\d.]*)")
_OURSELVES = re.compile(r"(?:.*/)?reflector")
#: What an installation calls; the second one is an older one's.
_SCRIPTS = ("/reflector/hooks/__main__.py", "/reflector/hooks/fast.py")
#: What may stand around a document, a byte order mark among it.
_BLANKS = " \t\r\n\ufeff"
_CALLS_US = re.compile(r"\breflector[\"']?\s+hook\b|\breflector/hooks/(?:fast|__main__)\.py\b")

_OUR_MODULE = "// Written by `reflector install`"
_MODULES_COMMAND = re.compile(r'^const command = (".*")$', re.MULTILINE)

#: What the agent runs.
SCRIPT = str(Path(fast.__file__).with_name("__main__.py"))


class MalformedSettings(Exception):
    """Settings that are not those of an agent, or that cannot be written; says why, and where if known."""


@dataclass(frozen=True, slots=True)
class Handler:
    """One hook in a settings file that calls us."""

    event: str
    command: str
    own: bool
    """Written by us, or as we would; False for one that calls us in its own way, which we leave alone."""


def hook_command(python: str = sys.executable, script: str = SCRIPT) -> str:
    """Return the command that the agent runs: its shell's words for the fastest start of the hook.

    Raises MalformedSettings where there is no path, or none that a settings file can hold.
    """
    if not python:
        raise MalformedSettings("this Python does not know its own path; run reflector by the full path of its program")
    command = f"{shlex.join([python, '-I', '-S', script])} {_NEVER_A_VERDICT}"
    try:
        command.encode()
    except UnicodeEncodeError:
        raise MalformedSettings(f"{command!r} is not UTF-8; install reflector under another path") from None
    return command


def is_own(command: str) -> bool:
    """Return whether a command is the hook and nothing else, of this or another environment, in any form of ours."""
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


def parsed(text: str) -> dict[str, Any]:
    """Return the settings in a text, {} for a blank one. Raises MalformedSettings."""
    try:
        text = text.removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse) if text.strip(_BLANKS) else {}
    except json.JSONDecodeError as error:
        comment = text[error.pos : error.pos + 2] in ("//", "/*") or text[error.pos : error.pos + 1] == "#"
        reason = "JSON has no comments" if comment else f"not JSON: {error.msg}"
        raise MalformedSettings(f"line {error.lineno}, column {error.colno}: {reason}") from None
    except ValueError:  # of Python's own limit: the text is JSON
        raise MalformedSettings("a number has thousands of digits") from None
    except RecursionError:
        raise MalformedSettings("nested too deeply") from None
    return _is(value, dict, "the document")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class HookList:
    """Our hooks in a JSON text with `hooks`: an event's name, matcher groups, handlers.

    events  that ours are registered for, each with its timeout in the file's own unit
    All methods raise MalformedSettings.
    """

    events: Mapping[str, int]

    def handlers(self, text: str) -> list[Handler]:
        """Return every hook that calls us, in the order of the file."""
        found: list[Handler] = []

        def look(event: str, handler: dict[str, Any]) -> dict[str, Any]:
            command = _command(handler)
            if (own := is_own(command)) or _CALLS_US.search(command):
                found.append(Handler(event, command, own))
            return handler

        _each(parsed(text), look)
        return found

    def install(self, text: str, command: str) -> str:
        """Return the text with our hook at each event; an older one of ours is replaced in its place.

        A blank text becomes a document.
        """
        missing = dict(self.events)

        def renewed(event: str, handler: dict[str, Any]) -> dict[str, Any] | None:
            if not is_own(_command(handler)):
                return handler
            if (timeout := missing.pop(event, None)) is None:
                return None
            # A time that a person chose stays.
            is_current = handler.get("type") == "command" and _command(handler) == command
            return handler if is_current and _timeout(handler) is not None else _handler(command, timeout)

        before = parsed(text)
        hooks = _is(before.get("hooks", {}), dict, "hooks")
        for event in self.events:
            _is(hooks.get(event, []), list, f"hooks.{event}")
        settings = _each(before, renewed)
        for event, timeout in missing.items():
            settings.setdefault("hooks", {}).setdefault(event, []).append({"hooks": [_handler(command, timeout)]})
        return text if settings == before else dumped(settings, text if text.strip(_BLANKS) else "{}\n")

    def uninstall(self, text: str) -> str:
        """Return the text without our hooks, and without the lists that held nothing else."""
        before = parsed(text)
        settings = _each(before, _without_ours)
        return text if settings == before else dumped(settings, text)

    def foreign(self, text: str) -> str:
        """Return what a text says beside our hooks, in one form, without empty lists of hooks."""
        settings = _each(parsed(text), _without_ours)
        if isinstance(hooks := settings.get("hooks"), dict):
            settings["hooks"] = {event: groups for event, groups in hooks.items() if groups != []}
            if not settings["hooks"]:
                del settings["hooks"]
        return json.dumps(settings)

    def is_exact(self, text: str) -> bool:
        """Return whether a change leaves each line that is not about our hooks as it is."""
        return not text.strip(_BLANKS) or dumped(parsed(text), text) == text


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """Our hooks in a file of our own, for an agent that loads JavaScript modules; one that is not ours is refused.

    name    of the file in `modules/` that speaks to the agent
    events  that the module gives the hook
    """

    name: str
    events: Iterable[str]

    def handlers(self, text: str) -> list[Handler]:
        """Return the hooks in our module; none for another file."""
        found = _MODULES_COMMAND.search(text) if text.startswith(_OUR_MODULE) else None
        try:
            command = str(json.loads(found[1])) if found else ""
        except ValueError:  # somebody edited it
            return []
        return [Handler(event, command, own=True) for event in self.events if command]

    def install(self, text: str, command: str) -> str:
        """Return the module. Raises MalformedSettings if the text is another one."""
        if text.strip() and not text.startswith(_OUR_MODULE):
            raise MalformedSettings("this file is not reflector's; give it another name")
        call, module = (Path(SCRIPT).with_name("modules") / f"{name}.js" for name in ("call", self.name))
        return call.read_text("utf-8").replace('"@COMMAND@"', json.dumps(command)) + module.read_text("utf-8")

    def uninstall(self, text: str) -> str:
        """Return "" for our module, and any other text as it is."""
        return "" if text.startswith(_OUR_MODULE) else text

    foreign = uninstall

    def is_exact(self, text: str) -> bool:
        """Return True: what is not ours is refused, never written back."""
        return True


def dumped(settings: dict[str, Any], like: str) -> str:
    """Return settings as JSON with the indentation, line ends and outer blanks of a text. Raises MalformedSettings."""
    body = like.strip(_BLANKS)
    start = len(like) - len(like.lstrip(_BLANKS))
    indented = re.findall(r"\n([ \t]*)[^\s}\]]", body)
    indent = None if "\n" not in body and ":" in body else indented[0] if indented else "  "
    colon = ":" if indent is None and '": ' not in body else ": "
    separators = (", " if indent is None and colon == ": " else ",", colon)
    try:
        written = json.dumps(
            settings, ensure_ascii=body.isascii(), indent=indent, separators=separators, allow_nan=False
        )
        written.encode()
    except (ValueError, RecursionError):
        raise MalformedSettings("a number or a text in it cannot be written back") from None
    return like[:start] + written.replace("\n", "\r\n" if "\r\n" in like else "\n") + like[start + len(body) :]


def _handler(command: str, timeout: int) -> dict[str, Any]:
    return {"type": "command", "command": command, "timeout": timeout}


def _command(handler: Any) -> str:
    """Return a handler's command with its arguments; "" where it has none."""
    if not isinstance(handler, dict) or not isinstance(handler.get("command"), str):
        return ""
    command: str = handler["command"]
    arguments = handler.get("args")
    return shlex.join([command, *map(str, arguments)]) if isinstance(arguments, list) else command


def _timeout(handler: dict[str, Any]) -> float | None:
    timeout = handler.get("timeout")
    return timeout if isinstance(timeout, int | float) and not isinstance(timeout, bool) else None


def _without_ours(_event: str, handler: dict[str, Any]) -> dict[str, Any] | None:
    return None if is_own(_command(handler)) else handler


_Renew = Callable[[str, dict[str, Any]], dict[str, Any] | None]


def _each(settings: dict[str, Any], renew: _Renew) -> dict[str, Any]:
    """Return settings with each hook as `renew` returns it, and without the lists that this empties."""
    if not isinstance(hooks := settings.get("hooks"), dict):
        return dict(settings)
    kept = {}
    for event, groups in hooks.items():
        after = groups
        if isinstance(groups, list):
            after = [edited for group in groups if (edited := _group(event, group, renew)) is not None]
        if after or not groups:
            kept[event] = after
    if kept or not hooks:
        return settings | {"hooks": kept}
    return {key: value for key, value in settings.items() if key != "hooks"}


def _group(event: str, group: Any, renew: _Renew) -> Any:
    """Return a matcher group with its hooks renewed; None for one that is empty now."""
    if not isinstance(group, dict) or not isinstance(inner := group.get("hooks"), list) or not inner:
        return group
    if left := [renewed for handler in inner if (renewed := renew(event, handler)) is not None]:
        return group | {"hooks": left}
    # A group without handlers does nothing, whatever it matches.
    return None if group.keys() <= {"matcher", "hooks"} else group | {"hooks": []}


def _is(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise MalformedSettings(f"{name} is not {'an object' if kind is dict else 'an array'}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises MalformedSettings for a key that appears twice: readers differ, and one goes."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise MalformedSettings(f'"{next(key for key in keys if keys.count(key) > 1)}" appears twice in one object')
    return found


def _refuse(constant: str) -> NoReturn:
    raise MalformedSettings(f"{constant} is not a JSON number")
