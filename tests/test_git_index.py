"""What git tracks, as read from its index, against what git itself says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reflector.git_index import tracked_below

ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, env=ENV, capture_output=True, text=True).stdout


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_tracked_file_is_found_in_every_form_of_an_index(tmp_path: Path, version: str, hashes: str) -> None:
    work, linked = tmp_path / "work", tmp_path / "linked"
    git(tmp_path, "init", "-q", f"--object-format={hashes}", "work")
    git(work, "config", "index.version", version)
    for name in (".claude/playbook.json", ".claude/reflector2/y", "a/.claude/reflector/x", "symlink", "z"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name)
    git(work, "add", "-Af")
    if version == "3":  # which git writes only where it must
        (work / "later").touch()
        git(work, "add", "-N", "later")
    assert (work / ".git" / "index").read_bytes()[7] == int(version)
    state = work / ".claude" / "reflector"
    state.mkdir()
    (state / "ledger.db").touch()
    assert tracked_below(state) is None
    assert tracked_below(work / "a" / ".claude" / "reflector") == "a/.claude/reflector/x"
    git(work, "add", "-f", ".claude/reflector/ledger.db")
    assert tracked_below(state) == tracked_below(state / "ledger.db") == ".claude/reflector/ledger.db"
    git(work, "commit", "-qm", "x")
    git(work, "worktree", "add", "-q", str(linked))
    assert tracked_below(linked / ".claude" / "reflector") == ".claude/reflector/ledger.db"
    git(work, "update-index", "--split-index")
    (work / "new").touch()
    git(work, "add", "new")
    assert tracked_below(state) == ".claude/reflector/ledger.db"
    git(work, "rm", "-q", "--cached", ".claude/reflector/ledger.db")
    assert tracked_below(state) is None


@pytest.mark.parametrize("name", [".Claude/Reflector", ".claude/reﬂector", ".CLAUDE/REFLECTOR"])
def test_a_name_that_the_file_system_takes_for_the_folders_is_found(tmp_path: Path, name: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "ledger.db").touch()
    git(tmp_path, "add", "-A")
    state = tmp_path / ".claude" / "reflector"
    assert tracked_below(state) is None
    (tmp_path / ".GIT").symlink_to(".git")  # as if names were compared without case
    assert tracked_below(state) == f"{name}/ledger.db"


def test_a_state_folder_that_is_a_submodule_came_with_the_repository(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    git(tmp_path, "init", "-q", "theirs")
    (theirs / "ledger.db").touch()
    git(theirs, "add", "-A")
    git(theirs, "commit", "-qm", "x")
    git(tmp_path, "init", "-q", "work")
    work = tmp_path / "work"
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(theirs), ".claude/reflector")
    assert tracked_below(work / ".claude" / "reflector") == "ledger.db"


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC\0\0\0\4\xff\xff\xff\xff" + b"\x80" * 90, bytes(range(256)) * 9])
def test_an_index_that_is_damaged_says_nothing_and_hangs_nobody(tmp_path: Path, index: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_bytes(index)
    assert tracked_below(tmp_path / ".claude" / "reflector") is None
    (tmp_path / ".git" / "index").unlink()
    os.mkfifo(tmp_path / ".git" / "index")
    with pytest.raises(OSError, match="not a regular file"):
        tracked_below(tmp_path / ".claude" / "reflector")


def test_outside_of_a_repository_nothing_is_tracked(tmp_path: Path) -> None:
    assert tracked_below(tmp_path / ".claude" / "reflector") is None
