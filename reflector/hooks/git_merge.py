"""The merge driver of a playbook.json that is shared through git, and its installation in a clone:
git calls `python -I -m reflector.hooks.git_merge %O %A %B`.

Invariant: with exit code 0, the file of our version contains the merge. With exit code 1, it has
conflict markers around the changes that a user must decide. If the files cannot be read as
playbooks, they are merged line by line. If the merge cannot be written, the exit code is above 128,
so git knows that nothing was merged.

Installing twice is the same as installing once, and uninstalling restores every file byte for byte.
Our line of `.claude/.gitattributes` is the first, so that the line before it need not be
terminated.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.files import read_bounded, replace_file
from reflector.git import git_says
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, dump_shared, load
from reflector.playbook.versions import merge_versions
from reflector.refusal import Refusal

if TYPE_CHECKING:
    from reflector.hooks.install import Change

_SECTION = "merge.reflector"
_MOST = 1 << 20
#: The beginning of the variables in which `git merge` passes the commits that it merges.
_HEAD = "GITHEAD_"
#: The exit code for git if nothing was merged; 1 means a conflict.
_FAILED = 129


def main(arguments: Sequence[str]) -> int:
    """Merge the files of the ancestor, our version and theirs into ours. Return git's exit code: 1
    if you must resolve a conflict.
    """
    base, ours, theirs = map(Path, arguments[:3])
    try:
        versions = [_bullets(path) for path in (base, ours, theirs)]
    except OSError as error:
        return _told(f"cannot read a version of .claude/playbook.json for the merge: {error}", 1)
    if None in versions:
        labels = ["-L", "ours", "-L", "base", "-L", "theirs"]
        command = ["git", "merge-file", "-q", *labels, str(ours), str(base), str(theirs)]
        return 1 if subprocess.run(command, check=False).returncode else 0
    old, mine, other = (bullets or () for bullets in versions)
    if _is_merge():
        merged = merge_versions(old, mine, other)
    else:
        # Theirs is a change on top of HEAD, as in a rebase, a stash or a cherry-pick. Others may
        # have the names at HEAD already.
        merged = [(our, their) for their, our in merge_versions(old, other, mine)]
    left = dump_shared(one for one, _ in merged)
    right = dump_shared(two for _, two in merged)
    try:
        replace_file(ours, _marked(left, right))
    except OSError as error:
        return _told(f"git cannot merge .claude/playbook.json: {error}", _FAILED)
    for name in _kept(merged, old, mine, other):
        _told(
            f"one branch removed {name}, and the other branch changed the text of {name}, so "
            f"{name} stays in the playbook; to remove {name} after the merge, run `reflector "
            f"remove {name}`",
            0,
        )
    code = 0
    for name in [one.name for one, two in merged if one != two]:
        code = _told(
            f"both branches changed the text of {name}; choose one of the two texts in "
            ".claude/playbook.json",
            1,
        )
    return code


def _kept(merged: Sequence[tuple[Bullet, Bullet]], *versions: Sequence[Bullet]) -> list[str]:
    """Return the names of the ancestor's bullets in a merge that one of both sides removed.

    If the other side has such a bullet under another name, its name means another bullet there.
    """
    old, mine, other = ({b.name: b.text for b in version} for version in versions)
    removed = {name: old[name] for name in old.keys() & (mine.keys() ^ other.keys())}
    texts = {*mine.values(), *other.values()}
    names = (bullet.name for bullet, _ in merged)
    return [name for name in names if name in removed and removed[name] not in texts]


def _told(what: str, code: int) -> int:
    sys.stderr.write(f"reflector: {what}\n")
    return code


def _bullets(path: Path) -> tuple[Bullet, ...] | None:
    """Return a version's bullets, () for an empty file; None if it cannot be read as a playbook."""
    raw = read_bounded(path, MAX_BYTES)
    loaded = load(raw)
    return loaded.bullets if not loaded.problems else None if raw.strip() else ()


def _is_merge() -> bool:
    """Return whether git is merging a branch into HEAD. git names the branch's commit in the
    environment, also while it puts back changes that it stashed before the merge.
    """
    commits = [name.removeprefix(_HEAD) for name in os.environ if name.startswith(_HEAD)]
    is_in_head = ["git", "merge-base", "--is-ancestor"]
    return any(
        subprocess.run([*is_in_head, commit, "HEAD"], capture_output=True, check=False).returncode
        for commit in commits
    )


def _marked(ours: bytes, theirs: bytes) -> bytes:
    """Return two texts that differ in some lines as one, with git's markers around each such
    line.
    """
    lines = []
    for a, b in zip(ours.splitlines(keepends=True), theirs.splitlines(keepends=True), strict=True):
        lines.append(
            a if a == b else b"<<<<<<< ours\n" + a + b"=======\n" + b + b">>>>>>> theirs\n"
        )
    return b"".join(lines)


class GitRefused(Refusal):
    """A repository that cannot be set up; the text contains the reason and the way out."""


def driver_of(root: Path) -> str | None:
    """Return the merge driver of a clone; None without one."""
    found = git_says(root, "config", "--local", "--get", f"{_SECTION}.driver")
    return found.decode("utf-8", "replace").rstrip("\n") if found is not None else None


def share(root: Path, *, out: bool = False, dry_run: bool = False) -> tuple[Change, Change]:
    """Share a project's playbook.json through git, or with `out` undo that. Return the change of
    the attributes and that of git's configuration.

    Raises: GitRefused, OSError.
    """
    from reflector.hooks.install import Change
    from reflector.playbook_files.git_versions import ATTRIBUTES, attributes_file, is_shared

    if git_says(root, "rev-parse", "--is-inside-work-tree") != b"true\n":
        raise GitRefused(
            f"{root} is not in a git working tree; run `git init` in this folder, or name another "
            "project with --project"
        )
    path = attributes_file(root)
    try:
        before = read_bounded(path, _MOST)
    except FileNotFoundError:
        before = None
    if out:
        after = _without_line(before, ATTRIBUTES.encode())
    elif is_shared(root):
        after = before
    else:
        after = ATTRIBUTES.encode() + b"\n" + (before or b"")
    command = shlex.join([Path(sys.executable).as_posix(), "-I", "-m", "reflector.hooks.git_merge"])
    driver = f"{command.replace('%', '%%')} %O %A %B"
    present_driver = driver_of(root)
    present = None if present_driver is None else f"{_SECTION}.driver = {present_driver}".encode()
    wanted = None if out else f"{_SECTION}.driver = {driver}".encode()
    attributes = Change(path, before, after)
    setting = Change(root / ".git" / "config", present, wanted)
    if dry_run or (attributes.is_none and setting.is_none):
        return attributes, setting
    # With attributes that name an unknown driver, git only merges line by line.
    if after is None:
        path.unlink(missing_ok=True)
    elif after != before:
        replace_file(path, after)
    if not out:
        _configure(root, f"{_SECTION}.name", "playbook.json of reflector, rule by rule")
        _configure(root, f"{_SECTION}.driver", driver)
    elif present is not None:
        _configure(root, "--remove-section", _SECTION)
    return attributes, setting


def _without_line(content: bytes | None, line: bytes) -> bytes | None:
    """Return a file's content without a line; None if it contains nothing else."""
    lines = (content or b"").splitlines(keepends=True)
    return b"".join(other for other in lines if other.rstrip(b"\r\n") != line) or None


def _configure(root: Path, *words: str) -> None:
    if git_says(root, "config", "--local", *words) is None:
        failure = f"git cannot change the configuration of {root} ({' '.join(words)})"
        raise GitRefused(
            f"{failure}; check the permissions of .git/config, and run the same command again"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
