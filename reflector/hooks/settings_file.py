"""An agent's settings file: changed whole, with the file from before our first hook beside it.

Invariant: a settings file is at every moment the whole old one or the whole new one, with its mode and behind its
symlink, and never a mix with what somebody else wrote meanwhile. What cannot be changed with certainty is not
touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reflector import files
from reflector.hooks.agents import Form
from reflector.hooks.install import MalformedSettings

T = TypeVar("T")


class SettingsRefused(Exception):
    """A settings file that we leave alone; `what` says which, where and why."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.what = path, f"{path}{reason}"
        super().__init__(f"{self.what}; correct it and run the same command again. Nothing was changed.")


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a settings file, or would be; None where there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None
    """The file as it was, where it lies beside the new one."""
    reformats: bool = False
    """Whether lines outside our hooks change too: they are written as the JSON library writes them."""

    @property
    def is_none(self) -> bool:
        return self.before == self.after


def backup_path(path: Path) -> Path:
    """Return where a settings file lies as it was before our first hook."""
    return path.with_name(path.name + ".reflector-backup")


def read_settings(path: Path, parse: Callable[[str], T]) -> T:
    """Return what `parse` makes of a settings file, "" where there is none. Raises SettingsRefused."""
    try:
        with _refusing(path):
            return parse(_text(_read(path)))
    except OSError as error:
        raise SettingsRefused(path, f": {error.strerror}") from None


def install_hooks(path: Path, form: Form, command: str, *, within: Path | None, dry_run: bool = False) -> Change:
    """Put our hooks into a settings file, or say what that would change.

    form    how they are written in it
    within  the project that the file is in; None for a person's own, which is theirs alone where it is new
    Raises SettingsRefused, also where a link leads out of the project, Changed, and OSError where the file cannot be
    written.
    """
    _refuse_outside(path, within)
    if not dry_run:
        path.parent.mkdir(mode=0o700 if within is None else 0o777, parents=True, exist_ok=True)
    with _held(path), _refusing(path):
        before, backup = _read(path), backup_path(path)
        after = form.install(text := _text(before), command).encode()
        if before != after and not dry_run:
            _back_up(path, form, before)
            _replace(path, before, after, 0o600 if within is None else 0o644)
        reformats = before not in (None, after) and not form.is_exact(text)
        return Change(path, before, after, backup if backup.exists() else None, reformats)


def uninstall_hooks(path: Path, form: Form, *, within: Path | None, depth: int = 0, dry_run: bool = False) -> Change:
    """Take our hooks out of a settings file, or say what that would change.

    Where nothing else was changed since they were put in, the file is as it was before, to the byte; one that held
    nothing else is removed, and so are up to `depth` folders above it that are empty then.
    Raises SettingsRefused, also where a link leads out of the project, Changed, and OSError where the file cannot be
    written.
    """
    _refuse_outside(path, within)
    with _held(path), _refusing(path):
        before, backup = _read(path), backup_path(path)
        kept = _read(backup)
        after = _without_hooks(form, before, kept)
        if before != after and not dry_run:
            _replace(path, before, after)
        if after is not None and after == kept and not dry_run:
            backup.unlink()
        if after is None and before is not None and not dry_run:
            with suppress(OSError):  # something else is in it
                for folder in path.parents[:depth]:
                    folder.rmdir()
        reformats = after not in (None, before, kept) and not form.is_exact(_text(before))
        return Change(path, before, after, backup if backup.exists() else None, reformats)


def _refuse_outside(path: Path, project: Path | None) -> None:
    """Raise SettingsRefused for a project's file that lies elsewhere: links in a project are whoever made it's."""
    real = Path(os.path.realpath(path))
    if project is not None and not real.is_relative_to(os.path.realpath(project)):
        raise SettingsRefused(path, f" leads out of the project, to {real}; remove the link")


def _without_hooks(form: Form, before: bytes | None, kept: bytes | None) -> bytes | None:
    """Return a file's content without our hooks; `kept` is the backup's."""
    if before is None or (after := form.uninstall(text := _text(before))) == text:
        return before
    if kept is None:  # then there was no file
        return None if after.strip() in ("", "{}") else after.encode()
    with suppress(MalformedSettings):  # somebody edited the backup
        was = _text(kept)
        if not _has_own(form, was) and form.foreign(text) == form.foreign(was):
            return kept
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


def _has_own(form: Form, text: str) -> bool:
    return any(handler.own for handler in form.handlers(text))


def _back_up(path: Path, form: Form, before: bytes | None) -> None:
    """Keep a file that has none of our hooks yet; what was kept before our first one stays."""
    if before is None:
        return
    backup, text = backup_path(path), _text(before)
    is_made_by_us = _has_own(form, text) and form.uninstall(text).strip() in ("", "{}")
    if not is_made_by_us and not (_has_own(form, text) and backup.exists()):
        _write(backup, before, 0o600, path.stat())


def _replace(path: Path, before: bytes | None, after: bytes | None, mode: int = 0o600) -> None:
    """Put a file's new content in the old one's place, with its mode and owner, a new one's with `mode`.

    Raises Changed where it is not the old one any more.
    """
    target = Path(os.path.realpath(path))

    def last_look() -> None:
        if _read(target) != before:
            raise files.Changed(f"{path} was changed since it was read, and is left as it is; try again")

    if after is None:
        last_look()
        target.unlink()
    else:
        _write(target, after, mode, None if before is None else target.stat(), last_look)


def _write(
    target: Path, data: bytes, mode: int, like: os.stat_result | None, last_look: Callable[[], None] = lambda: None
) -> None:
    def finish() -> None:
        if like is not None and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):  # only root may: after `sudo` a person still owns their settings
                os.chown(target.with_name(f".{target.name}.tmp"), like.st_uid, like.st_gid)
        last_look()

    target.parent.stat()  # a link that leads nowhere makes no folder
    files.replace_file(target, data, mode if like is None else stat.S_IMODE(like.st_mode), last_look=finish)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except MalformedSettings as error:
        raise SettingsRefused(path, f": {error}") from None


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other commands of ours from the file meanwhile; leaves no lock file behind."""
    try:
        folder = files.Folder(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120 - Path.resolve fails on loops
    except OSError:  # the folder is missing, or a link leads nowhere
        yield
        return
    with folder:
        with suppress(OSError):  # some file systems lock nothing; the file is compared before it is replaced
            files.lock(folder.fd, wait=True)
        yield
