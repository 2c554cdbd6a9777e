"""Sharing playbook.json through git: set up in a repository, and taken out of it again.

Invariant: installing twice is installing once, and uninstalling leaves every file as it was, to the byte. Our line of
`.claude/.gitattributes` is the first, so that no line before it has to end for it.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from reflector.curation.sharing import ATTRIBUTES, ask_git, attributes_file, is_shared
from reflector.files import read_bounded, replace_file
from reflector.hooks.settings_file import Change

_LINE = f"{ATTRIBUTES}\n".encode()
_SECTION = "merge.reflector"
_MOST = 1 << 20


class GitRefused(Exception):
    """A repository that cannot be set up; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What was done, or would be: the change of the attributes, and the merge driver before and after."""

    attributes: Change
    driver_before: str | None
    driver_after: str | None

    @property
    def is_none(self) -> bool:
        return self.attributes.is_none and self.driver_before == self.driver_after


def merge_driver() -> str:
    """Return the command that git runs to merge two versions of playbook.json."""
    command = shlex.join([Path(sys.executable).as_posix(), "-I", "-m", "reflector.hooks.git_merge"])
    return f"{command.replace('%', '%%')} %O %A %B"


def driver_of(root: Path) -> str | None:
    """Return the merge driver that a clone has; None where it has none."""
    found = ask_git(root, "config", "--local", "--get", f"{_SECTION}.driver")
    return found.decode("utf-8", "replace").rstrip("\n") if found is not None else None


def install(root: Path, *, dry_run: bool = False) -> Setup:
    """Share a project's playbook.json through git. Raises GitRefused, OSError."""
    _needs_git(root)
    path = attributes_file(root)
    before = _read(path)
    setup = Setup(
        Change(path, before, before if is_shared(root) else _LINE + (before or b"")), driver_of(root), merge_driver()
    )
    if not dry_run and not setup.is_none:
        # Attributes that name a driver which git does not know only make it merge line by line.
        if not setup.attributes.is_none:
            replace_file(path, setup.attributes.after or b"")
        _set(root, "name", "playbook.json of reflector, bullet by bullet")
        _set(root, "driver", merge_driver())
    return setup


def uninstall(root: Path, *, dry_run: bool = False) -> Setup:
    """Take what `install` did out again. Raises GitRefused, OSError."""
    _needs_git(root)
    path = attributes_file(root)
    before = _read(path)
    after = b"".join(line for line in (before or b"").splitlines(keepends=True) if line.rstrip(b"\r\n") != _LINE[:-1])
    setup = Setup(Change(path, before, after or None), driver_of(root), None)
    if not dry_run:
        if after:
            replace_file(path, after)
        else:
            path.unlink(missing_ok=True)
        if setup.driver_before is not None and ask_git(root, "config", "--local", "--remove-section", _SECTION) is None:
            raise GitRefused(f"git cannot change the configuration of {root}; remove its section {_SECTION} by hand")
    return setup


def _needs_git(root: Path) -> None:
    if ask_git(root, "rev-parse", "--is-inside-work-tree") != b"true\n":
        raise GitRefused(
            f"{root} is not a working tree that git knows; run `git init` there, or name another project with --project"
        )


def _set(root: Path, key: str, value: str) -> None:
    if ask_git(root, "config", "--local", f"{_SECTION}.{key}", value) is None:
        raise GitRefused(f"git cannot write {_SECTION}.{key} into the configuration of {root}; check its permissions")


def _read(path: Path) -> bytes | None:
    try:
        return read_bounded(path, _MOST)
    except FileNotFoundError:
        return None
