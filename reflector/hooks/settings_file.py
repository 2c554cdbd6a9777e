"""The agent's settings files: where they are, and how one is changed.

Invariant: a settings file is at every moment the whole old one or the whole new one, with its mode and behind its
symlink, and never a mix with what somebody else wrote meanwhile. What cannot be changed with certainty is not
touched. The file as it was before our first hook lies beside it until it is put back.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reflector import folders
from reflector.files import lock
from reflector.hooks.agents import Form
from reflector.hooks.json_text import MalformedJson

#: How often another program may change the file under our hands before we give up.
_ATTEMPTS = 20
#: How the name of a file ends that is being written.
TEMPORARY = ".reflector-tmp"
_BOM = codecs.BOM_UTF8


class SettingsRefused(Exception):
    """A settings file that we leave alone; says which, where and why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}{reason}; correct it and run the same command again. Nothing was changed.")


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to a settings file, or would be; None where there is no file."""

    path: Path
    before: bytes | None
    after: bytes | None
    backup: Path | None = None
    """The file as it was, where it lies beside the new one."""

    @property
    def is_none(self) -> bool:
        return self.before == self.after


def backup_path(path: Path) -> Path:
    """Return where a settings file lies as it was before our first hook."""
    return path.with_name(path.name + ".reflector-backup")


def read_text(path: Path) -> str | None:
    """A settings file's text without a byte order mark; None where there is none. Raises SettingsRefused, OSError."""
    raw = _read(path)
    return None if raw is None else _text(path, raw)


def install_hooks(path: Path, form: Form, command: str, *, private: bool, dry_run: bool = False) -> Change:
    """Put our hooks into a settings file, or say what that would change.

    form     how they are written in it
    private  whether a new file is for its owner alone
    Raises SettingsRefused, and OSError where the file cannot be written.
    """

    def edit(before: bytes | None) -> bytes:
        text = _text(path, before or b"")
        with _refusing(path):
            return _raw(before, form.install(text, command))

    if dry_run:
        before = _read(path)
        return Change(path, before, edit(before))
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700 if private else 0o777, parents=True)
    with _held(path):
        for _ in range(_ATTEMPTS):
            before = _read(path)
            after = edit(before)
            if before == after:
                return Change(path, before, after, _there(backup_path(path)))
            backup = _back_up(path, form, before)
            if _replace(path, before, after, 0o600 if private else 0o666):
                return Change(path, before, after, backup)
    raise SettingsRefused(path, " is changed by another program all the time")


def uninstall_hooks(path: Path, form: Form, *, depth: int = 0, dry_run: bool = False) -> Change:
    """Take our hooks out of a settings file, or say what that would change.

    Where nothing else was changed since they were put in, the file is as it was before, to the byte; one that held
    nothing else is removed, and so are up to `depth` folders above it that are empty then.
    Raises SettingsRefused, and OSError where the file cannot be written.
    """
    backup = backup_path(path)
    if dry_run or not path.parent.exists():
        before = _read(path)
        return Change(path, before, _uninstalled(path, form, before))
    with _held(path):
        for _ in range(_ATTEMPTS):
            before = _read(path)
            after = _uninstalled(path, form, before)
            if before != after and not _replace(path, before, after, 0o600):
                continue
            if after is not None and after == _read(backup):
                backup.unlink()
            if before is not None and after is None:
                with suppress(OSError):  # something else is in it
                    for folder in path.parents[:depth]:
                        folder.rmdir()
            return Change(path, before, after, _there(backup))
    raise SettingsRefused(path, " is changed by another program all the time")


def _uninstalled(path: Path, form: Form, before: bytes | None) -> bytes | None:
    if before is None:
        return None
    text = _text(path, before)
    with _refusing(path):
        after = form.uninstall(text)
        if after == text:
            return before
        kept = _read(backup_path(path))
        if kept is None:
            # Without one, there was no file.
            return None if form.is_empty(after) else _raw(before, after)
        if kept.startswith(_BOM) == before.startswith(_BOM):
            try:
                if form.differs_by_us(text, _text(path, kept)):
                    return kept
            except (MalformedJson, SettingsRefused):  # somebody edited the backup
                pass
        return _raw(before, after)


def _read(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsRefused(path, " is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _text(path: Path, raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SettingsRefused(path, ": UTF-16, not UTF-8")
    try:
        return raw.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = len(raw[raw.rfind(b"\n", 0, error.start) + 1 : error.start].decode()) + 1
        raise SettingsRefused(path, f", line {line}, column {column}: not UTF-8") from None


def _raw(before: bytes | None, text: str) -> bytes:
    return (_BOM if before is not None and before.startswith(_BOM) else b"") + text.encode()


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except MalformedJson as error:
        raise SettingsRefused(path, f", line {error.line}, column {error.column}: {error.reason}") from None


def _there(path: Path) -> Path | None:
    return path if path.exists() else None


def _back_up(path: Path, form: Form, before: bytes | None) -> Path | None:
    """Keep a file that has none of our hooks yet; what was kept before our first one stays."""
    backup = backup_path(path)
    if before is None:
        return None
    text = _text(path, before)
    if any(handler.own for handler in form.handlers(text)) and (
        backup.exists() or form.is_empty(form.uninstall(text))  # we made the file
    ):
        return _there(backup)
    _write(backup, before, path.stat())
    return backup


def _replace(path: Path, before: bytes | None, after: bytes | None, mode: int) -> bool:
    """Put a file's new content in the old one's place; False where it is not the old one any more."""
    target = Path(os.path.realpath(path))

    def is_unchanged() -> bool:
        return _read(target) == before

    if after is None:
        if not is_unchanged():
            return False
        target.unlink()
        return True
    return _write(target, after, mode if before is None else target.stat(), is_unchanged)


def _write(target: Path, data: bytes, like: os.stat_result | int, is_wanted: Callable[[], bool] = lambda: True) -> bool:
    """Write a file whole or not at all, with the mode and owner of another one, or with a mode of its own."""
    temporary = f".{target.name}{TEMPORARY}"
    with folders.Folder(os.path.realpath(target.parent)) as folder:
        with suppress(FileNotFoundError):
            folder.remove(temporary)  # of a command that was killed
        fd = folder.open(temporary, folders.NEW, like if isinstance(like, int) else 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                if not isinstance(like, int):
                    _liken(fd, target.with_name(temporary), like)
                file.write(data)
                file.flush()
                os.fsync(fd)
            if wanted := is_wanted():
                folder.replace(temporary, target.name)
            else:
                folder.remove(temporary)
        except BaseException as error:
            with suppress(FileNotFoundError):
                folder.remove(temporary)
            if isinstance(error, OSError) and error.filename is None:  # of a descriptor: a full disk
                raise folders.with_path(error, str(target)) from None
            raise
    return wanted


def _liken(fd: int, path: Path, like: os.stat_result) -> None:
    if sys.platform != "win32" and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):  # it belongs to whoever installs, then, as if an editor had saved it
            os.fchown(fd, like.st_uid, like.st_gid)
    path.chmod(stat.S_IMODE(like.st_mode))


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other commands of ours from the file meanwhile; leaves no lock file behind.

    Windows cannot lock a folder, and some file systems lock nothing: that a file is compared before it is replaced
    has to do there.
    """
    try:
        fd = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)  # noqa: PTH120 - Path.resolve fails on loops
    except OSError:  # Windows; another command removed the folder; or a link leads nowhere
        yield
        return
    try:
        with suppress(OSError):
            lock(fd, wait=True)
        yield
    finally:
        os.close(fd)
