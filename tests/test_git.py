"""A repository's configuration runs nothing when git is asked; and what git tracks below a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflector.git import GitUnavailable, ask_git, tracked_below
from tests.test_locate import git

PROGRAMS = "core.fsmonitor core.pager core.sshCommand core.editor core.alternateRefsCommand gpg.program".split()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """An unpacked repository whose every setting that can name a program names one."""
    folder = tmp_path / "work"
    (folder / "hooks").mkdir(parents=True)
    git(folder, "init", "-q")
    mark = folder / "mark.sh"
    mark.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    mark.chmod(0o755)
    (folder / "heads.txt").write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    for name in ("post-index-change", "reference-transaction"):
        (folder / "hooks" / name).symlink_to(mark)
    for setting, value in (*((setting, mark) for setting in PROGRAMS), ("core.hooksPath", folder / "hooks")):
        git(folder, "config", setting, value)
    (tmp_path / "ran").unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [["rev-parse", "--verify", ":heads.txt"], ["cat-file", "-p", "HEAD:heads.txt"], ["ls-files"], ["status"], ["log"]],
    ids=" ".join,
)
def test_nothing_that_a_repository_names_is_run(hostile: Path, tmp_path: Path, arguments: list[str]) -> None:
    assert ask_git(hostile, *arguments)
    assert not (tmp_path / "ran").exists()


def test_no_variable_names_another_repository(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert ask_git(hostile, "rev-parse", "--show-toplevel") == os.fsencode(hostile) + b"\n"


@pytest.mark.parametrize("relative", ["", "."])
def test_no_local_git_is_run(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str) -> None:
    (hostile / "git").symlink_to(hostile / "mark.sh")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", os.pathsep.join([relative, os.environ["PATH"]]))
    assert ask_git(hostile, "rev-parse", "HEAD")
    assert not (tmp_path / "ran").exists()


STATE = ".claude/reflector"


def test_a_tracked_file_is_found_also_from_a_worktree_and_where_names_have_no_case(tmp_path: Path) -> None:
    work, linked = tmp_path / "work", tmp_path / "linked"
    assert tracked_below(tmp_path / STATE) is None  # outside of a repository
    git(tmp_path, "init", "-q", "work")
    for name in (".claude/playbook.json", f"{STATE}2/y", f"a/{STATE}/x"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).touch()
    git(work, "add", "-Af")
    (work / STATE).mkdir()
    (work / STATE / "ledger.db").touch()
    assert tracked_below(work / STATE) is None
    assert tracked_below(work / "a" / STATE) == f"a/{STATE}/x"
    git(work, "add", "-f", f"{STATE}/ledger.db")
    assert tracked_below(work / STATE) == tracked_below(work / STATE / "ledger.db") == f"{STATE}/ledger.db"
    assert tracked_below(work / ".Claude/Reflector") == f"{STATE}/ledger.db"
    git(work, "commit", "-qm", "x")
    git(work, "worktree", "add", "-q", str(linked))
    assert tracked_below(linked / STATE) == f"{STATE}/ledger.db"


def test_a_state_folder_that_is_a_submodule_came_with_the_repository(tmp_path: Path) -> None:
    theirs, work = tmp_path / "theirs", tmp_path / "work"
    for folder in (theirs, work):
        git(tmp_path, "init", "-q", str(folder))
    (theirs / "ledger.db").touch()
    git(theirs, "add", "-A")
    git(theirs, "commit", "-qm", "x")
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(theirs), STATE)
    assert tracked_below(work / STATE) == "ledger.db"


def test_an_unreadable_index_and_a_missing_git_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "index").write_bytes(b"DIRC\0\0\0\4\xff\xff\xff\xff" + b"\x80" * 90)
    with pytest.raises(GitUnavailable, match="git cannot list what it tracks"):
        tracked_below(tmp_path / STATE)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitUnavailable, match="not installed"):
        tracked_below(tmp_path / STATE)
