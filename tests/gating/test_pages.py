"""docs/embedding.md is run: each program by itself, each command, and what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.cli.app import run
from reflector.gating.config import SECTIONS
from tests.pages import section

_PROGRAM = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    f"{page}: {title}": program
    for page in ("Gated reflection", "Loops and graphs")
    for title, text in re.findall(
        r"^#+ ([^\n]+)\n(.*?)(?=^#+ |\Z)", f"### {page}\n{section('embedding.md', page)}", re.M | re.S
    )
    for program in _PROGRAM.findall(text)
}


def test_every_program_of_the_pages_has_its_output() -> None:
    pages = section("embedding.md", "Gated reflection") + section("embedding.md", "Loops and graphs")
    assert pages.count("```python\n") == len(PROGRAMS) == 6


def test_every_setting_is_in_the_table() -> None:
    page = section("embedding.md", "Gated reflection")
    keys = [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys]
    assert len(keys) == 10
    assert [key for key in keys if f"| `{key}` |" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_pages_prints_what_is_shown(name: str, tmp_path: Path) -> None:
    """In a process of its own, as a reader runs it. langgraph is one of the development tools; nothing is skipped."""
    code, shown = PROGRAMS[name]
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert (done.stderr, done.stdout) == ("", shown)


def test_the_commands_of_the_page_print_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    block = section("embedding.md", "Gated reflection").split("```console\n")[1].split("```")[0]
    played = ""
    for line in block.splitlines():
        if line.startswith("$ reflector "):
            assert run(shlex.split(line)[2:]) == 0
            played += f"{line}\n{capsys.readouterr().out}"
    assert played == block
