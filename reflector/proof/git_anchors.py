"""Heads that were published in git: a file at a commit, branch or tag, as git itself has it.

Invariant: no part of a spec becomes an option or a word of a shell, and git is asked for one blob of bounded size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Where a ref's heads are looked for when no path is named, from the project's folder.
USUAL_PATHS: Final = (".claude/playbook.head.json", ".claude/playbook.head", "heads.txt")


class NotPublished(ValueError):
    """A ref that names no file that git has; its own text says what is missing."""


def published(project: Path, spec: str, limit: int) -> bytes:
    """Return the content of `REV:PATH` in git's own syntax, or of a ref's file at one of `USUAL_PATHS`.

    `limit` is in bytes. Raises NotPublished.
    """
    if not spec or spec.startswith("-") or not spec.isprintable():
        raise NotPublished("it is neither POSITION:CHAIN nor a file, and no branch, tag or commit is called so")
    inside = _ask(project, "rev-parse", "--is-inside-work-tree")
    if inside is None:
        raise NotPublished(
            f"it is neither POSITION:CHAIN nor a file, and {project} is in no git repository that could have such a ref"
        )
    found = _object(project, spec)
    ref, colon, path = spec.partition(":")
    if found is None and colon and (not ref or _object(project, ref) is not None):
        where, commit = (repr(ref), ref) if ref else ("the index", "HEAD")
        raise NotPublished(f"{path!r} is not in {where}; see `git ls-tree -r --name-only {commit}`")
    if found is None:
        raise NotPublished(
            f"it is neither POSITION:CHAIN nor a file, nor is {ref!r} a branch, tag or commit here; see `git branch -a`"
        )
    if not colon and _kind(project, found) != b"blob":
        at = (_object(project, f"{found}:./{usual}") for usual in USUAL_PATHS)
        blob = next((one for one in at if one is not None), None)
        if blob is None:
            raise NotPublished(f"it has none of {', '.join(USUAL_PATHS)}; name the file as {spec}:PATH")
        found = blob
    return _blob(project, found, limit)


def _object(project: Path, spec: str) -> str | None:
    """Return the hash of what a spec names, None where it names nothing."""
    answer = _ask(project, "rev-parse", "--verify", "--quiet", "--end-of-options", spec)
    return answer.strip().decode("ascii", "replace") if answer else None


def _kind(project: Path, found: str) -> bytes:
    return (_ask(project, "cat-file", "-t", found) or b"").strip()


def _blob(project: Path, found: str, limit: int) -> bytes:
    if _kind(project, found) != b"blob":
        raise NotPublished("it is a folder, and a file is wanted")
    size = int(_ask(project, "cat-file", "-s", found) or 0)
    if size > limit:
        raise NotPublished(f"it has {size:,} bytes, more than the {limit:,} that a file of heads may have")
    content = _ask(project, "cat-file", "blob", found)
    if content is None:
        raise NotPublished("git cannot read it; run `git fsck`")
    return content


def _ask(project: Path, *arguments: str) -> bytes | None:
    """Return git's output, None if it refuses. Raises NotPublished if it cannot be run."""
    from reflector.git import GitUnavailable, ask_git  # most anchors are heads and files

    try:
        return ask_git(project, *arguments)
    except GitUnavailable as error:
        raise NotPublished(f"it is neither POSITION:CHAIN nor a file, and no ref can be looked up: {error}") from error
