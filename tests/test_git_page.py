"""docs/git.md is played in two clones: each command in turn, each output as it is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "git.md").read_text("utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_does_in_two_clones_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "reflector"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m reflector "$@"\n')
    shim.chmod(0o755)
    (tmp_path / ".gitconfig").write_text("[user]\nname = A\nemail = a@example.com\n[init]\ndefaultBranch = main\n")
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}

    def played(folder: str, script: str) -> str:
        command = ["bash", "--noprofile", "--norc", "-ec", script]
        done = subprocess.run(command, cwd=tmp_path / folder, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def typed(block: str) -> str:
        return "\n".join(line[2:] for line in block.splitlines() if line.startswith("$ "))

    sharing, renaming, moving = BLOCKS
    played(".", "git init -q --bare origin.git && git clone -q origin.git first")
    played("first", f"reflector add pat 'Run the tests before you commit'\n{typed(sharing)}\ngit push -q origin main")
    played(".", "git clone -q origin.git second && cd second && reflector install --git")
    played(
        "first", "reflector add pat 'Ask before you add a dependency'\ngit commit -qam More\ngit push -q origin main"
    )
    shown = [line for line in renaming.splitlines() if not line.startswith("$ ")]
    assert played("first", typed(renaming)).splitlines() == shown
    played("first", "mkdir -p src/deep && reflector --project src/deep add pat 'Read the map first'")
    played("first", typed(moving))
    assert "Read the map first" in played("first", "reflector list && test ! -e src/deep/.claude/reflector")
