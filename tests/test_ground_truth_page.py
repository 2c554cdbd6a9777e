"""docs/embedding.md is executed: each command prints what the page shows, and its program runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.pages import section
from tests.road.agent import Agent

PAGE = section("embedding.md", "Tasks that have a right answer")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_command_of_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = Agent.in_folder(tmp_path)
    (given,) = blocks("json")
    Path("trajectory.json").write_text(given)
    played = [
        part for block in blocks("console") for part in re.split(r"^\$ reflector ", block, flags=re.MULTILINE)[1:]
    ]
    assert len(played) > 3
    for command, _, told in (part.partition("\n") for part in played):
        assert agent.call(*shlex.split(command)).out == told, command
    typed = re.findall(r"^    reflector (.*)$", PAGE, re.MULTILINE)
    shown = [agent.call(*shlex.split(command)).out for command in typed]
    assert "test_cart.py::test_empty_cart" in shown[0]
    assert "test_cart.py::test_empty_cart" in shown[1]


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    exec(compile(program, "docs/embedding.md", "exec"), {})
    assert (tmp_path / ".claude" / "reflector" / "datasets" / "sums").is_dir()
