"""Sharing playbook.json through git: set up in a repository, and taken out of it again.

Invariant: installing twice is installing once, and uninstalling leaves every file as it was, to the byte. Our line of
`.claude/.gitattributes` is the first, so that no line before it has to end for it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from reflector.curation.edits import ATTRIBUTES, attributes_file, is_shared
from reflector.files import read_bounded, replace_file
from reflector.git import git_says
from reflector.hooks.install import Change

_LINE = f"{ATTRIBUTES}\n".encode()
_SECTION = "merge.reflector"
_MOST = 1 << 20


class GitRefused(Exception):
    """A repository that cannot be set up; the text says why and what to do."""


def driver_of(root: Path) -> str | None:
    """Return the merge driver that a clone has; None where it has none."""
    found = git_says(root, "config", "--local", "--get", f"{_SECTION}.driver")
    return found.decode("utf-8", "replace").rstrip("\n") if found is not None else None


def share(root: Path, *, out: bool = False, dry_run: bool = False) -> tuple[Change, Change]:
    """Share a project's playbook.json through git, or take `out` what that set up. Raises GitRefused, OSError.

    Returns the change of the attributes and that of git's configuration.
    """
    if git_says(root, "rev-parse", "--is-inside-work-tree") != b"true\n":
        raise GitRefused(
            f"{root} is not a working tree that git knows; run `git init` there, or name another project with --project"
        )
    path = attributes_file(root)
    try:
        before = read_bounded(path, _MOST)
    except FileNotFoundError:
        before = None
    if out:
        lines = (before or b"").splitlines(keepends=True)
        after = b"".join(line for line in lines if line.rstrip(b"\r\n") != _LINE[:-1]) or None
    else:
        after = before if is_shared(root) else _LINE + (before or b"")
    command = shlex.join([Path(sys.executable).as_posix(), "-I", "-m", "reflector.hooks.git_merge"])
    driver, present = f"{command.replace('%', '%%')} %O %A %B", driver_of(root)
    was = f"{_SECTION}.driver = {present}".encode() if present is not None else None
    new = None if out else f"{_SECTION}.driver = {driver}".encode()
    attributes, setting = Change(path, before, after), Change(root / ".git" / "config", was, new)
    if dry_run or (attributes.is_none and setting.is_none):
        return attributes, setting
    # Attributes that name a driver which git does not know only make it merge line by line.
    if after is None:
        path.unlink(missing_ok=True)
    elif after != before:
        replace_file(path, after)
    if not out:
        _configure(root, f"{_SECTION}.name", "playbook.json of reflector, bullet by bullet")
        _configure(root, f"{_SECTION}.driver", driver)
    elif was is not None:
        _configure(root, "--remove-section", _SECTION)
    return attributes, setting


def _configure(root: Path, *words: str) -> None:
    if git_says(root, "config", "--local", *words) is None:
        what = f"git cannot change the configuration of {root} ({' '.join(words)})"
        raise GitRefused(f"{what}; check its permissions, and run the same command again")
