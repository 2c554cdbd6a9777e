"""An agent's settings file: changed whole, with the file from before our first hook beside it.

Invariant: a settings file is at every moment the whole old one or the whole new one, with its mode and behind its
symlink, and never a mix with what somebody else wrote meanwhile. What cannot be changed with certainty is not
touched.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from reflector import files
from reflector.files import Changed, lock
from reflector.hooks.agents import Form
from reflector.hooks.install import MalformedSettings

T = TypeVar("T")
#: How often another program may change the file under our hands before we give up.
_ATTEMPTS = 20
#: How the name of a file ends that is being written.
TEMPORARY = ".reflector-tmp"
_BOM = codecs.BOM_UTF8


class SettingsRefused(Exception):
    """A settings file that we leave alone; `what` says which, where and why."""

    def __init__(self, path: Path, reason: str) -> None:
        self.what = f"{path}{reason}"
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
    """Return what `parse` makes of a settings file, "" where there is none. Raises SettingsRefused, OSError."""
    try:
        return parse(_text(path, _read(path) or b""))
    except MalformedSettings as error:
        raise SettingsRefused(path, f": {error}") from None


def install_hooks(path: Path, form: Form, command: str, *, private: bool, dry_run: bool = False) -> Change:
    """Put our hooks into a settings file, or say what that would change.

    form     how they are written in it
    private  whether a new file is for its owner alone
    Raises SettingsRefused, and OSError where the file cannot be written.
    """

    def edit(before: bytes | None) -> bytes:
        return _encoded(before, form.install(_text(path, before or b""), command))

    if not dry_run and not path.parent.exists():
        path.parent.mkdir(mode=0o700 if private else 0o777, parents=True)
    with _held(path):
        return _change(path, form, edit, 0o600 if private else 0o644, dry_run=dry_run, back_up=True)


def uninstall_hooks(path: Path, form: Form, *, depth: int = 0, dry_run: bool = False) -> Change:
    """Take our hooks out of a settings file, or say what that would change.

    Where nothing else was changed since they were put in, the file is as it was before, to the byte; one that held
    nothing else is removed, and so are up to `depth` folders above it that are empty then.
    Raises SettingsRefused, and OSError where the file cannot be written.
    """
    backup = backup_path(path)

    def edit(before: bytes | None) -> bytes | None:
        if before is None or (after := form.uninstall(text := _text(path, before))) == text:
            return before
        if (kept := _read(backup)) is None:
            return None if after.strip() in ("", "{}") else _encoded(before, after)  # without one, there was no file
        with suppress(MalformedSettings, SettingsRefused):  # somebody edited the backup
            was = _text(backup, kept)
            if not _has_own(form, was) and form.foreign(text) == form.foreign(was):
                return kept
        return _encoded(before, after)

    with _held(path):
        change = _change(path, form, edit, 0o600, dry_run=dry_run)
        if not dry_run and change.after is not None and change.after == _read(backup):
            backup.unlink()
            return replace(change, backup=None)
        if not dry_run and change.before is not None and change.after is None:
            with suppress(OSError):  # something else is in it
                for folder in path.parents[:depth]:
                    folder.rmdir()
    return change


def _change(
    path: Path,
    form: Form,
    edit: Callable[[bytes | None], bytes | None],
    mode: int,
    *,
    dry_run: bool,
    back_up: bool = False,
) -> Change:
    """Return what an edit of a file makes of it, after writing that; where another program was first, do it again."""
    backup = backup_path(path)
    for _ in range(_ATTEMPTS):
        before = _read(path)
        try:
            after = edit(before)
            is_ours = before is not None and after not in (None, before, _read(backup))
            reformats = is_ours and not form.is_exact(_text(path, before or b""))
        except MalformedSettings as error:
            raise SettingsRefused(path, f": {error}") from None
        try:
            if before != after and not dry_run:
                if back_up:
                    _back_up(path, form, before)
                _replace(path, before, after, mode)
        except Changed:
            continue
        return Change(path, before, after, backup if backup.exists() else None, reformats)
    raise SettingsRefused(path, " is changed by another program all the time")


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
        raise SettingsRefused(path, f": line {line}: not UTF-8") from None


def _encoded(before: bytes | None, text: str) -> bytes:
    return (_BOM if before is not None and before.startswith(_BOM) else b"") + text.encode()


def _has_own(form: Form, text: str) -> bool:
    return any(handler.own for handler in form.handlers(text))


def _back_up(path: Path, form: Form, before: bytes | None) -> None:
    """Keep a file that has none of our hooks yet; what was kept before our first one stays."""
    if before is None:
        return
    backup, text = backup_path(path), _text(path, before)
    is_made_by_us = _has_own(form, text) and form.uninstall(text).strip() in ("", "{}")
    if not is_made_by_us and not (_has_own(form, text) and backup.exists()):
        _write(backup, before, path.stat())


def _replace(path: Path, before: bytes | None, after: bytes | None, mode: int) -> None:
    """Put a file's new content in the old one's place. Raises Changed where it is not the old one any more."""
    target = Path(os.path.realpath(path))

    def last_look() -> None:
        if _read(target) != before:
            raise Changed(path)

    if after is None:
        last_look()
        target.unlink()
    else:
        _write(target, after, mode if before is None else target.stat(), last_look)


def _write(target: Path, data: bytes, like: os.stat_result | int, last_look: Callable[[], None] = lambda: None) -> None:
    """Write a file whole or not at all, with the mode and owner of another one, or with a mode of its own."""
    temporary = f".{target.name}{TEMPORARY}"

    def finish() -> None:
        if not isinstance(like, int) and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):  # it belongs to whoever installs, then, as if an editor had saved it
                os.chown(target.with_name(temporary), like.st_uid, like.st_gid)
        last_look()

    with files.Folder(os.path.realpath(target.parent)) as folder:
        with suppress(FileNotFoundError):
            folder.remove(temporary)  # of a command that was killed
        mode = like if isinstance(like, int) else stat.S_IMODE(like.st_mode)
        files.put(folder, temporary, target.name, data, mode, finish)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other commands of ours from the file meanwhile; leaves no lock file behind."""
    try:
        fd = os.open(os.path.dirname(os.path.realpath(path)), os.O_RDONLY)  # noqa: PTH120 - Path.resolve fails on loops
    except OSError:  # the folder is missing, or a link leads nowhere
        yield
        return
    try:
        with suppress(OSError):  # some file systems lock nothing; the file is compared before it is replaced
            lock(fd, wait=True)
        yield
    finally:
        os.close(fd)
