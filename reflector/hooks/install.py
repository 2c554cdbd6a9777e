"""Our hooks in an agent's settings: added, found and removed in a text and in its file.

Invariant: all other settings stay, in their order, and the text keeps its indentation, line ends
and the blanks around the document. A text that cannot be written back without a loss is refused.
Installing twice is the same as installing once. At every moment the file is completely the old one
or the new one, with its mode and its symlink, and never a mix with another program's edit. The
version from before our first hook stays beside it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import dropwhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reflector import files
from reflector.hooks import fast
from reflector.refusal import Refusal
from reflector.waiting import wait_for

T = TypeVar("T")
_Object = dict[str, Any]

#: If our environment is gone, Python's own exit code is 2, with which a hook forbids to stop or to
#: compact.
_NEVER_A_VERDICT = "|| exit 0"
_PYTHON = re.compile(r"(?:.*/)?(?:python[\d.]*t?|pypy[\d.]*)")
_OURSELVES = re.compile(r"(?:.*/)?reflector")
#: The script that an installation calls; the second one belongs to older installations.
_SCRIPTS = ("/reflector/hooks/__main__.py", "/reflector/hooks/fast.py")
#: The characters that may surround a document, including a byte order mark.
_BLANKS = " \t\r\n\ufeff"
_CALLS_US = re.compile(r"\breflector[\"']?\s+hook\b|\breflector/hooks/(?:fast|__main__)\.py\b")

#: Seconds that a process waits for another process that changes the same settings.
_PATIENCE = 30.0
_OUR_MODULE = "// Written by `reflector install`"
_MODULES_COMMAND = re.compile(r'^const command = (".*")$', re.MULTILINE)

#: The script that the agent runs.
SCRIPT = str(Path(fast.__file__).with_name("__main__.py"))


class MalformedSettings(Refusal):
    """Settings that are not those of an agent, or that cannot be written. The text contains the
    reason, and the place if it is known.
    """


class Handler(NamedTuple):
    """One hook in a settings file that calls us."""

    event: str
    command: str
    own: bool
    """Whether we wrote it, or would have. One that calls us in its own way is left alone."""


def hook_command(python: str = sys.executable, script: str = SCRIPT) -> str:
    """Return the command that the agent runs: the words for its shell that start the hook fastest.

    Raises: MalformedSettings if the path of Python is unknown, or a settings file cannot contain
    it.
    """
    if not python:
        raise MalformedSettings(
            "the path of this Python is unknown; run the command reflector by its full path"
        )
    command = f"{shlex.join([python, '-I', '-S', script])} {_NEVER_A_VERDICT}"
    try:
        command.encode()
    except UnicodeEncodeError:
        raise MalformedSettings(
            f"the command {command!r} is not UTF-8; install reflector in another folder"
        ) from None
    return command


def is_own(command: str) -> bool:
    """Return whether a command is only the hook, of this or another environment, in any form of
    ours.
    """
    return _call_in(command) == ["hook"]


def is_status_line(command: str) -> bool:
    """Return whether a command is only our status line, of this or another playbook."""
    match _call_in(command):
        case ["statusline"] | ["--user", "statusline"] | ["--project", _, "statusline"]:
            return True
    return False


def _call_in(command: str) -> list[str]:
    """Return the words after our program in a command that runs only it; [] for another command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    for end in (["||", "exit", "0"], ["||", "true"], ["||", ":"]):
        if words[-len(end) :] == end:
            words = words[: -len(end)]
    if words[:1] == ["exec"]:
        words = words[1:]
    program = words[0] if words else ""
    if _OURSELVES.fullmatch(program):
        return words[1:]
    if _PYTHON.fullmatch(program) is None:
        return []
    match [*dropwhile(_is_flag, words[1:])]:
        case ["-m", "reflector", *call]:
            return call
        case [script] if script.endswith(_SCRIPTS):
            return ["hook"]
    return []


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-m"


def parsed(text: str) -> _Object:
    """Return the settings in a text, {} for a blank one.

    Raises: MalformedSettings.
    """
    try:
        text = text.removeprefix("\ufeff")
        value = json.loads(text, object_pairs_hook=_unique) if text.strip(_BLANKS) else {}
    except json.JSONDecodeError as error:
        raise MalformedSettings(
            f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError):  # limits of Python; the text is JSON
        raise MalformedSettings(
            "a number has thousands of digits, or the document is nested too deeply"
        ) from None
    return _is(value, dict, "the document")  # type: ignore[no-any-return]


def _renew(handler: _Object, command: str, timeout: int) -> None:
    """Make an older hook of ours call the command. With the same command, a timeout that the user
    chose stays.
    """
    renewed = _handler(command, timeout)
    if _command(handler) == command:
        renewed |= handler
    handler.clear()
    handler.update(renewed)


class HookList(NamedTuple):
    """Our hooks in a JSON text with `hooks`: an event's name, matcher groups, handlers.

    events  of our hooks, each with its timeout in the file's own unit

    All methods raise MalformedSettings.
    """

    events: Mapping[str, int]

    def handlers(self, text: str) -> list[Handler]:
        """Return every hook that calls us, in the order of the file."""
        handlers = []
        for event, _, group in _groups(parsed(text)):
            for hook in group["hooks"]:
                command = _command(hook) if isinstance(hook, dict) else ""
                is_ours = is_own(command)
                if is_ours or _CALLS_US.search(command):
                    handlers.append(Handler(event, command, is_ours))
        return handlers

    def install(self, text: str, command: str) -> str:
        """Return the text with our hook at each event. An older hook of ours is replaced in its
        place.

        A blank text becomes a document.
        """
        settings = parsed(text)
        missing = dict(self.events)
        hooks = _is(settings.get("hooks", {}), dict, "`hooks`")
        for event in self.events:
            _is(hooks.get(event, []), list, f"`hooks.{event}`")

        def is_second(event: str, handler: _Object) -> bool:
            """Renew our first hook at an event; return whether a hook is another one of ours."""
            if not is_own(_command(handler)):
                return False
            timeout = missing.pop(event, None)
            if timeout is not None:
                _renew(handler, command, timeout)
            return timeout is None

        _remove(settings, is_second)
        for event, timeout in missing.items():
            settings.setdefault("hooks", {}).setdefault(event, []).append(
                {"hooks": [_handler(command, timeout)]}
            )
        if settings == parsed(text):
            return text
        return dumped(settings, text if text.strip(_BLANKS) else "{}\n")

    def uninstall(self, text: str) -> str:
        """Return the text without our hooks and status line, and without the lists that contained
        only these.
        """
        settings = parsed(text)
        _remove(settings, lambda _, handler: is_own(_command(handler)))
        _remove_status_line(settings)
        return text if settings == parsed(text) else dumped(settings, text)

    def foreign(self, text: str) -> str:
        """Return the other settings of a text in one form: with our hooks, each in the place that
        it has or would have.
        """
        settings = parsed(self.install(text, ""))
        _remove_status_line(settings)
        return json.dumps(settings, sort_keys=True)

    def is_exact(self, text: str) -> bool:
        """Return whether a change leaves each line outside our hooks as it is."""
        return not text.strip(_BLANKS) or dumped(parsed(text), text) == text


class ModuleFile(NamedTuple):
    """Our hooks in a file of our own, for an agent that loads JavaScript modules. A file of another
    author is refused.

    name    of the file in `modules/` that the agent loads
    events  that the module passes to the hook
    """

    name: str
    events: Iterable[str]

    def handlers(self, text: str) -> list[Handler]:
        """Return the hooks in our module; none for another file."""
        found = _MODULES_COMMAND.search(text) if text.startswith(_OUR_MODULE) else None
        try:
            command = str(json.loads(found[1])) if found else ""
        except ValueError:  # the file was edited
            return []
        return [Handler(event, command, own=True) for event in self.events if command]

    def install(self, text: str, command: str) -> str:
        """Return the module.

        Raises: MalformedSettings if the text is another one.
        """
        if text.strip() and not text.startswith(_OUR_MODULE):
            raise MalformedSettings("another program wrote this file; give the file another name")
        call, module = (
            Path(SCRIPT).with_name("modules") / f"{name}.js" for name in ("call", self.name)
        )
        return call.read_text("utf-8").replace(
            '"@COMMAND@"', json.dumps(command)
        ) + module.read_text("utf-8")

    def uninstall(self, text: str) -> str:
        """Return "" for our module, and any other text as it is."""
        return "" if text.startswith(_OUR_MODULE) else text

    def foreign(self, text: str) -> str:
        """Return the part of a text that is not ours."""
        return self.uninstall(text)

    def is_exact(self, text: str) -> bool:
        """Return True, because another text is refused and never written back."""
        return True


def dumped(settings: _Object, like: str) -> str:
    """Return settings as JSON with the indentation, line ends and outer blanks of a text.

    Raises: MalformedSettings.
    """
    body = like.strip(_BLANKS)
    start = len(like) - len(like.lstrip(_BLANKS))
    indented = re.findall(r"\n([ \t]*)[^\s}\]]", body)
    is_one_line = "\n" not in body and ":" in body
    is_compact = is_one_line and '": ' not in body
    indent = None
    if not is_one_line:
        indent = indented[0] if indented else "  "
    colon = ":" if is_compact else ": "
    comma = ", " if is_one_line and not is_compact else ","
    try:
        written = json.dumps(
            settings,
            ensure_ascii=body.isascii(),
            indent=indent,
            separators=(comma, colon),
            allow_nan=False,
        )
        written.encode()
    except (ValueError, RecursionError):
        raise MalformedSettings(
            "the file contains a number or a text that reflector would have to change"
        ) from None
    line_end = "\r\n" if "\r\n" in like else "\n"
    return like[:start] + written.replace("\n", line_end) + like[start + len(body) :]


def _groups(settings: _Object) -> Iterator[tuple[str, list[Any], _Object]]:
    """Yield each matcher group that has a list of hooks, with its event and the list that contains
    it.
    """
    hooks = settings.get("hooks")
    for event, groups in list(hooks.items()) if isinstance(hooks, dict) else ():
        for group in list(groups) if isinstance(groups, list) else ():
            if isinstance(group, dict) and isinstance(group.get("hooks"), list):
                yield event, groups, group


def _remove(settings: _Object, is_gone: Callable[[str, _Object], bool]) -> None:
    """Remove some hooks, and the lists that contained only these."""
    for event, groups, group in _groups(settings):
        remaining = []
        for hook in group["hooks"]:
            is_removed = isinstance(hook, dict) and is_gone(event, hook)
            if not is_removed:
                remaining.append(hook)
        if len(remaining) == len(group["hooks"]):
            continue
        group["hooks"] = remaining
        # A group without handlers has no effect.
        if not remaining and group.keys() <= {"matcher", "hooks"}:
            groups[:] = [other for other in groups if other is not group]
        if not groups:
            del settings["hooks"][event]
        if not settings["hooks"]:
            del settings["hooks"]


def _remove_status_line(settings: _Object) -> None:
    line = settings.get("statusLine")
    if isinstance(line, dict) and is_status_line(_command(line)):
        del settings["statusLine"]


def _handler(command: str, timeout: int) -> _Object:
    return {"type": "command", "command": command, "timeout": timeout}


def _command(handler: _Object) -> str:
    """Return a handler's command with its arguments; "" without a command."""
    command = handler.get("command")
    arguments = handler.get("args")
    if not isinstance(command, str):
        return ""
    return shlex.join([command, *map(str, arguments)]) if isinstance(arguments, list) else command


def _is(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise MalformedSettings(f"{name} is not {'an object' if kind is dict else 'an array'}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> _Object:
    """Return an object of JSON.

    Raises: MalformedSettings for a key that appears twice, because only one value would be kept,
    and readers differ in which.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise MalformedSettings(
            f'"{next(key for key in keys if keys.count(key) > 1)}" appears twice in one object'
        )
    return found


#: The form of our hooks in a text. Methods raise MalformedSettings for a text that cannot contain
#: them.
Form = HookList | ModuleFile


class SettingsRefused(Refusal):
    """A settings file that we do not change; `what` contains the file, the place and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.what = f"{path}{reason}"
        way_out = "" if "; " in reason else "; correct the file"
        super().__init__(
            f"{self.what}{way_out}, and run the same command again. Nothing was changed."
        )


class Change(NamedTuple):
    """The change of a settings file, made or only planned. A content is None if the file is
    missing.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None
    """The backup of the file, if there is one."""
    reformats: bool = False
    """Whether lines outside our hooks change too, because the JSON library writes them."""

    @property
    def is_none(self) -> bool:
        return self.before == self.after


def backup_path(path: Path) -> Path:
    """Return the path of a settings file's backup from before our first hook."""
    return path.with_name(path.name + ".reflector-backup")


def read_settings(path: Path, parse: Callable[[str], T]) -> T:
    """Return the result of `parse` for a settings file, or for "" if the file is missing.

    Raises: SettingsRefused.
    """
    try:
        return parse(_text(_read(path)))
    except OSError as error:
        raise SettingsRefused(path, f": {error.strerror}") from None
    except MalformedSettings as error:
        raise SettingsRefused(path, f": {error}") from None


def install_hooks(
    path: Path, form: Form, command: str, *, within: Path | None, dry_run: bool = False
) -> Change:
    """Put our hooks into a settings file, or with `dry_run` only return the change.

    form    their format in the file
    within  the project that the file is in; None for a user's own file, which is private if it is
            new

    Raises: SettingsRefused, also if a link leads out of the project; Changed; OSError if the file
    cannot be written.
    """
    with _changing(path, within, makes=not dry_run):
        before = _read(path)
        backup = backup_path(path)
        text = _text(before)
        after = form.install(text, command).encode()
        if before != after and not dry_run:
            _back_up(path, form, before)
            _replace(path, before, after, 0o600 if within is None else 0o644)
        reformats = before not in (None, after) and not form.is_exact(text)
        return Change(path, before, after, backup if backup.exists() else None, reformats)


def uninstall_hooks(
    path: Path, form: Form, *, within: Path | None, depth: int = 0, dry_run: bool = False
) -> Change:
    """Remove our hooks and status line from a settings file, or with `dry_run` only return the
    change.

    If nothing else was changed since they were put in, the file becomes byte for byte what it was
    before. A file that contained nothing else is removed, and so are up to `depth` empty folders
    above it.

    Raises: SettingsRefused, also if a link leads out of the project; Changed; OSError if the file
    cannot be written.
    """
    with _changing(path, within):
        before = _read(path)
        backup = backup_path(path)
        backup_bytes = _read(backup)
        after = _without_hooks(form, before, backup_bytes)
        if before != after and not dry_run:
            _replace(path, before, after)
        if after is not None and after == backup_bytes and not dry_run:
            backup.unlink()
        if after is None and before is not None and not dry_run:
            with suppress(OSError):  # it contains something else
                for folder in path.parents[:depth]:
                    folder.rmdir()
        reformats = after not in (None, before, backup_bytes) and not form.is_exact(_text(before))
        return Change(path, before, after, backup if backup.exists() else None, reformats)


def _without_hooks(form: Form, before: bytes | None, backup: bytes | None) -> bytes | None:
    """Return a file's content without our hooks; None for a file that is missing or that only our
    hooks created.

    before  the file's content now
    backup  the content of its backup, which is returned if it differs only by our hooks
    """
    if before is None:
        return None
    text = _text(before)
    after = form.uninstall(text)
    if after == text:
        return before
    if backup is None:  # the file did not exist before our hooks
        return None if after.strip() in ("", "{}") else after.encode()
    with suppress(MalformedSettings):  # the backup was edited
        backup_text = _text(backup)
        is_free_of_us = form.uninstall(backup_text) == backup_text
        if is_free_of_us and form.foreign(text) == form.foreign(backup_text):
            return backup
    return after.encode()


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise MalformedSettings("not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _text(raw: bytes | None) -> str:
    try:
        return (raw or b"").decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise MalformedSettings(f"line {line}: not UTF-8") from None


def _back_up(path: Path, form: Form, before: bytes | None) -> None:
    """Keep a copy of a file as it was before our first hook.

    If the file has our hooks already, a copy is made only if there is none, and only if the file
    contains more than our hooks, because otherwise we created it.
    """
    if before is None:
        return
    backup = backup_path(path)
    text = _text(before)
    if any(handler.own for handler in form.handlers(text)):
        is_made_by_us = form.uninstall(text).strip() in ("", "{}")
        if is_made_by_us or backup.exists():
            return
    files.replace_file(backup, before, stat.S_IMODE(path.stat().st_mode))
    _give(backup, path.stat())


def _replace(path: Path, before: bytes | None, after: bytes | None, mode: int = 0o600) -> None:
    """Replace a file's content and keep its mode and owner. A new file gets `mode`.

    Raises: Changed if the content is not `before` any more.
    """
    target = Path(os.path.realpath(path))
    target.parent.stat()  # a link without a target must not create a folder
    owner = target.stat() if before is not None else None
    files.replace_read(target, before, after, mode if before is None else None)
    if owner is not None and after is not None:
        _give(target, owner)


def _give(path: Path, like: os.stat_result) -> None:
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        # Only root may do this, so that after `sudo` users still own their settings.
        with suppress(PermissionError):
            os.chown(path, like.st_uid, like.st_gid)


@contextmanager
def _changing(path: Path, project: Path | None, *, makes: bool = False) -> Iterator[None]:
    """Prevent other commands of ours from changing a settings file meanwhile, without a lock file.

    Raises: SettingsRefused, also for a project's file outside the project, because anyone could
    have made the links in a project.
    """
    real = Path(os.path.realpath(path))
    if project is not None and not real.is_relative_to(os.path.realpath(project)):
        raise SettingsRefused(
            path, f" contains a link to {real}, outside the project; remove the link"
        )
    if makes:
        path.parent.mkdir(mode=0o700 if project is None else 0o777, parents=True, exist_ok=True)
    with ExitStack() as stack:
        # The lock may fail: a missing folder, a link without a target, a file system without locks,
        # or a stopped holder. But the file is compared before it is replaced.
        with suppress(OSError):
            wait_for(stack.enter_context(files.Folder(str(real.parent))).fd, _PATIENCE)
        try:
            yield
        except MalformedSettings as error:
            raise SettingsRefused(path, f": {error}") from None
