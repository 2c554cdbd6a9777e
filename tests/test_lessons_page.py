"""docs/learning.md is executed: its program runs in a project, and each example prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.pages import section
from tests.road.agent import Agent

PAGE = section("learning.md", "Lessons")


def examples() -> list[tuple[list[str], str]]:
    """(words of the command, what it prints) of every example, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ reflector ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(command), told) for command, _, told in (part.partition("\n") for part in parts)]


def test_every_example_of_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    monkeypatch.chdir(agent.project)
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(program, {})
    assert len(examples()) > 4
    for words, told in examples():
        assert agent.call(*words).out == told, words
