"""docs/team.md is executed: each example prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.pages import section
from tests.road.agent import Agent

PAGE = section("team.md", "Moving a ledger")
HEAD = re.compile(r"^\d+:pl1:[0-9a-f]{64}$", re.MULTILINE)


def examples() -> list[tuple[list[str], str]]:
    """(words of the command, what it prints) of every example, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ reflector ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(command), told) for command, _, told in (part.partition("\n") for part in parts)]


def test_every_example_of_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    agent = Agent(tmp_path / "demo", tmp_path / "home")
    agent.home.mkdir()
    (tmp_path / "other" / ".claude").mkdir(parents=True)
    agent.call("demo", "--keep", agent.project)
    assert len(examples()) > 10
    for words, told in examples():
        into = words[words.index(">") + 1] if ">" in words else None
        ran = agent.call(*(words[: words.index(">")] if into else words))
        if into is not None:
            Path(into).write_text(ran.out)
        assert HEAD.sub("HEAD", "" if into else ran.out) == told, words


def test_the_page_says_what_a_file_holds() -> None:
    from reflector.exchange.cloudevents import Stored, event_line

    full = Stored(1, "a", "bullet.added", 1, "t", "t", "me", "s", "r", "t", '{"name":"pat-001"}', "h", "{}", "c")
    names = re.findall(r'"(\w+)":', event_line(full, "0" * 32))
    assert [name for name in names if name != "name" and f"`{name}`" not in PAGE] == []
