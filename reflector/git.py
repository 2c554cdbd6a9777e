"""Runs git so that a repository does not decide what runs, where git looks, or how long it takes.

Invariant: an archive or a shared folder can bring a configuration that names programs for git to
run: a file system monitor, hooks, a pager, helpers of fetch and diff, a checker of signatures. None
of them is run, nothing is fetched, and no object is replaced by another. Environment variables
cannot lead to another repository. The wait for an answer is bounded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from reflector.files import read_bounded

_TIMEOUT_S = 30
#: More bytes than a file has that names another folder.
_MOST_POINTER = 1 << 16
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "log.showSignature=false",
    "log.showRoot=true",
    "protocol.allow=never",
)
#: Commands that show differences, for which git would run other programs.
_DIFFERENCES = frozenset({"blame", "diff", "diff-index", "diff-tree", "log", "show"})
_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    # A replaced object would show another history under the same name.
    "GIT_NO_REPLACE_OBJECTS": "1",
}


class GitUnavailable(ValueError):
    """Git cannot be used; the text contains the reason and the way out."""


def ask_git(folder: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return the output of git in a folder with `given` on its stdin; None if git refuses.

    Raises: GitUnavailable.
    """
    import shutil
    import subprocess

    if not _may_have_repository(folder):
        return None
    # A relative entry would find a program in the working folder.
    path = os.pathsep.join(
        part for part in os.environ.get("PATH", "").split(os.pathsep) if part.startswith("/")
    )
    program = shutil.which("git", path=path)
    if program is None:
        raise GitUnavailable("git is not installed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    question, *rest = arguments
    plain = _NO_PROGRAMS if question in _DIFFERENCES else ()
    try:
        ended = subprocess.run(
            [program, "--no-pager", *settings, "-C", str(folder), question, *plain, *rest],
            input=given,
            capture_output=True,
            env={**environment, **_ENVIRONMENT, "PATH": path},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitUnavailable(
            f"git did not answer within {_TIMEOUT_S} s; check the repository's disk"
        ) from error
    except OSError as error:
        raise GitUnavailable(f"git cannot be run ({error.strerror})") from error
    if ended.returncode != 0:
        if b"dubious ownership" in ended.stderr:
            raise GitUnavailable(
                f"git does not trust the repository of {folder}, because the repository belongs "
                "to another user; to trust the repository, add this folder to git's setting "
                "safe.directory"
            )
        return None
    return ended.stdout


def _may_have_repository(folder: Path) -> bool:
    """Return whether git may find a repository from a folder upward. A `.git` shows one, and HEAD
    shows a bare one.
    """
    real = os.path.realpath(folder)
    while True:
        above = os.path.dirname(real)  # noqa: PTH120 - many questions are asked
        if os.path.lexists(f"{real}/.git") or os.path.lexists(f"{real}/HEAD"):
            return True
        if above == real:
            return False
        real = above


def git_says(folder: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return the output of git as `ask_git` does; None also if git cannot be used."""
    try:
        return ask_git(folder, *arguments, given=given)
    except GitUnavailable:
        return None


def read_blobs(
    folder: Path, names: Iterable[bytes], largest: int, together: int
) -> dict[bytes, bytes | None]:
    """Return the contents of files by their names in git, such as `HEAD:./CLAUDE.md`; None for a
    missing file. Files of more than `largest` bytes are omitted, and so are files that would exceed
    `together` bytes for all.

    Raises: GitUnavailable.
    """
    ids: dict[bytes, bytes] = {}
    sizes: dict[bytes, int] = {}
    for name, blob, size in _blobs(folder, names):
        if blob not in sizes and size > min(largest, together):
            continue
        together -= size if blob not in sizes else 0
        ids[name] = blob
        sizes[blob] = size
    sizes.pop(b"", None)
    answer = ask_git(folder, "cat-file", "--batch", given=_lines(sizes)) if sizes else b""
    contents: dict[bytes, bytes | None] = {b"": None}
    end = 0
    for blob, size in sizes.items():
        start = (answer or b"").index(b"\n", end) + 1
        end = start + size + 1
        contents[blob] = (answer or b"")[start : end - 1]
    return {name: contents[blob] for name, blob in ids.items()}


def _blobs(folder: Path, names: Iterable[bytes]) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield each name with the id and the size of its blob, b"" and 0 if it is missing."""
    asked = list(dict.fromkeys(name for name in names if b"\n" not in name))
    heads = ask_git(folder, "cat-file", "--batch-check", given=_lines(asked)) if asked else b""
    for name, head in zip(asked, (heads or b"").splitlines(), strict=False):
        blob = re.fullmatch(rb"(\w+) blob (\d+)", head)
        yield (name, blob[1], int(blob[2])) if blob else (name, b"", 0)


def _lines(words: Iterable[bytes]) -> bytes:
    return b"".join(word + b"\n" for word in words)


def tracked_below(folder: Path) -> str | None:
    """Return one path that git tracks at or below a file or folder; None if it tracks none.

    The repository is the nearest one, from the path itself upward. Our state folder ignores itself,
    so a tracked file in it came with the repository.

    Raises: GitUnavailable.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - links are not followed
    root, git = repository(folder)
    if git is None:
        return None
    below = folder.relative_to(root)
    # If the file system ignores case, a checkout writes `.Claude` as `.claude`.
    output = ask_git(
        root,
        "ls-files",
        "-z",
        "--",
        *([f":(top,literal,icase){below.as_posix()}"] if below.parts else []),
    )
    if output is None:
        raise GitUnavailable(
            f"git cannot list the files of {root}; run `git ls-files` in this folder"
        )
    return os.fsdecode(output.split(b"\0")[0]) if output else None


def repository(folder: Path) -> tuple[Path, Path | None]:
    """Return the root of the repository that a folder is in, and its git folder. Outside of a
    repository return the folder and None.
    """
    for root in (folder, *folder.parents):
        git = root / ".git"
        if git.is_dir():
            return root, git
        with suppress(OSError):  # a file of this name contains its path
            pointer = os.fsdecode(read_bounded(git, _MOST_POINTER))
            if pointer.startswith("gitdir:"):
                return root, root / pointer.removeprefix("gitdir:").strip()
    return folder, None
