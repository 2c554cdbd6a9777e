"""Heads that were published in git: a file at a commit, branch or tag, as git itself has it.

Invariant: no part of a spec becomes an option or a word of a shell, and git is asked for one blob of bounded size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Where a ref's heads are looked for when no path is named, from the project's folder.
USUAL_PATHS: Final = (".claude/playbook.head.json", ".claude/playbook.head", "heads.txt")
_NEITHER: Final = "it is neither POSITION:CHAIN nor a file"


class NotPublished(ValueError):
    """A ref that names no file that git has; its own text says what is missing."""


def published(project: Path, spec: str, limit: int) -> bytes:
    """Return the content of `REV:PATH` in git's own syntax, or of a ref's file at one of `USUAL_PATHS`.

    `limit` is in bytes. Raises NotPublished.
    """
    if not spec or spec.startswith("-") or not spec.isprintable():
        raise NotPublished(f"{_NEITHER}, and no branch, tag or commit is called so")
    if _ask(project, "rev-parse", "--is-inside-work-tree") is None:
        raise NotPublished(f"{_NEITHER}, and {project} is in no git repository that could have such a ref")
    ref, colon, path = spec.partition(":")
    if ref and _ask(project, "cat-file", "-t", ref) is None:
        raise NotPublished(f"{_NEITHER}, nor is {ref!r} a branch, tag or commit here; see `git branch -a`")
    names = [spec] if colon else [f"{ref}:./{usual}" for usual in USUAL_PATHS]
    kinds = {name: kind for name in names if (kind := _ask(project, "cat-file", "-t", name)) is not None}
    if not kinds and colon:
        where, commit = (repr(ref), ref) if ref else ("the index", "HEAD")
        raise NotPublished(f"{path!r} is not in {where}; see `git ls-tree -r --name-only {commit}`")
    if not kinds:
        raise NotPublished(f"it has none of {', '.join(USUAL_PATHS)}; name the file as {spec}:PATH")
    name = next(iter(kinds))
    if kinds[name].strip() != b"blob":
        raise NotPublished("it is a folder, and a file is wanted")
    size = int(_ask(project, "cat-file", "-s", name) or 0)
    if size > limit:
        raise NotPublished(f"it has {size:,} bytes, more than the {limit:,} that a file of heads may have")
    content = _ask(project, "cat-file", "blob", name)
    if content is None:
        raise NotPublished("git cannot read it; run `git fsck`")
    return content


def _ask(project: Path, *arguments: str) -> bytes | None:
    """Return git's output, None if it refuses. Raises NotPublished if it cannot be run."""
    from reflector.git import GitUnavailable, ask_git  # most anchors are heads and files

    try:
        return ask_git(project, *arguments)
    except GitUnavailable as error:
        raise NotPublished(f"{_NEITHER}, and no ref can be looked up: {error}") from error
