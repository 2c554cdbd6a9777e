"""Git, asked so that a repository decides nothing: neither what runs, nor where it looks, nor how long it takes.

Invariant: a repository's configuration (an archive and a shared folder bring one) names programs that git would run: a
file system monitor, hooks, a pager, helpers of a fetch. None of them is run, nothing is fetched, no object is
replaced by another, and no variable of the environment leads to another repository. An answer is waited for a
bounded time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from reflector.git_index import git_folder

_TIMEOUT_S: Final = 30
_SETTINGS: Final = ("core.fsmonitor=false", f"core.hooksPath={os.devnull}", "protocol.allow=never")
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    # A replaced object would be another history under the same name.
    "GIT_NO_REPLACE_OBJECTS": "1",
}


class GitUnavailable(ValueError):
    """Git cannot be asked; its own text says why and what to do."""


def ask_git(folder: Path, *arguments: str, given: bytes = b"") -> bytes | None:
    """Return what git prints in a folder with `given` on its stdin, None where it refuses. Raises GitUnavailable."""
    # A relative entry would be a program of the folder that somebody works in.
    path = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if Path(part).is_absolute())
    program = shutil.which("git", path=path)
    if program is None:
        raise GitUnavailable("git is not installed")
    _refuse_pipes(folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        ended = subprocess.run(
            [program, "--no-pager", *settings, "-C", str(folder), *arguments],
            input=given,
            capture_output=True,
            env={**environment, **_ENVIRONMENT, "PATH": path},
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GitUnavailable(f"git did not answer within {_TIMEOUT_S} s; see whether its disk hangs") from error
    except OSError as error:
        raise GitUnavailable(f"git cannot be run ({error.strerror})") from error
    if ended.returncode != 0:
        if b"dubious ownership" in ended.stderr:
            raise GitUnavailable(
                f"git does not trust the repository of {folder}, which is another user's; see git's "
                "setting safe.directory"
            )
        return None
    return ended.stdout


def _refuse_pipes(folder: Path) -> None:
    """Raise GitUnavailable where a file of the repository that git always reads is a pipe, which it would wait for."""
    for root in (folder, *folder.parents):
        if (git := git_folder(root)) is not None:
            for file in (git / name for name in ("HEAD", "commondir", "config", "index", "packed-refs")):
                if file.exists() and not file.is_file():
                    raise GitUnavailable(f"{file} is not a regular file")
            return
