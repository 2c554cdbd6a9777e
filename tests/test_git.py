"""A repository's configuration runs nothing when git is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reflector.git import GitUnavailable, ask_git

PROGRAMS = (
    "core.fsmonitor",
    "core.pager",
    "core.sshCommand",
    "core.editor",
    "core.alternateRefsCommand",
    "gpg.program",
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """An unpacked repository whose every setting that can name a program names one."""
    folder = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    mark = folder / "mark.sh"
    mark.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    mark.chmod(0o755)
    (folder / "heads.txt").write_text("x")
    for words in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    for setting in PROGRAMS:
        subprocess.run(["git", "-C", str(folder), "config", setting, str(mark)], check=True)
    hooks = folder / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction"):
        (hooks / name).symlink_to(mark)
    subprocess.run(["git", "-C", str(folder), "config", "core.hooksPath", str(hooks)], check=True)
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


def test_the_environment_leads_to_no_other_repository(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert ask_git(hostile, "rev-parse", "--show-toplevel") == os.fsencode(hostile) + b"\n"


@pytest.mark.parametrize("relative", ["", "."])
def test_no_git_of_the_working_folder_is_run(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    (hostile / "git").symlink_to(hostile / "mark.sh")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", os.pathsep.join([relative, os.environ["PATH"]]))
    assert ask_git(hostile, "rev-parse", "HEAD")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["HEAD", "config", "index", "packed-refs"])
def test_a_pipe_in_place_of_a_file_of_git_is_refused_and_not_waited_for(hostile: Path, name: str) -> None:
    (hostile / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(hostile / ".git" / name)
    (hostile / "sub").mkdir()
    with pytest.raises(GitUnavailable, match=f"{name} is not a regular file"):
        ask_git(hostile / "sub", "ls-files")
