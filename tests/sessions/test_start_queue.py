"""Drains that start together: one of them loads and works, none of their deliveries is left lying."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reflector.hooks import fast
from reflector.sessions.start_queue import load_in_turn
from tests.hooks.conftest import Project

CHECKOUT = Path(fast.__file__).parents[2]
HOLD = """
import sys
from reflector.sessions.start_queue import load_in_turn
print(load_in_turn(sys.argv[1], lambda: (print("loading", flush=True), sys.stdin.readline())), flush=True)
sys.stdin.readline()
"""


def test_while_one_drain_loads_another_leaves_and_afterwards_it_may_load(project: Project) -> None:
    project.state.mkdir(parents=True)
    pipe = subprocess.PIPE
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, project.path], stdin=pipe, stdout=pipe, text=True, cwd=CHECKOUT
    )
    assert first.stdin is not None
    assert first.stdout is not None
    assert first.stdout.readline() == "loading\n"
    loaded: list[int] = []
    assert not load_in_turn(str(project.path), lambda: loaded.append(1))
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.stdout.readline() == "True\n"  # loaded, and still at work
    assert load_in_turn(str(project.path), lambda: loaded.append(2))
    assert loaded == [2]
    first.communicate("\n", timeout=30)


def test_without_a_state_folder_or_with_a_symlink_for_the_turn_each_loads_for_itself(project: Project) -> None:
    loaded: list[int] = []
    assert load_in_turn(str(project.path), lambda: loaded.append(1))
    assert not project.claude.exists()
    project.state.mkdir(parents=True)
    (project.state / "drain.turn").symlink_to(project.home / "victim")
    assert load_in_turn(str(project.path), lambda: loaded.append(2))
    assert not (project.home / "victim").exists()
    assert loaded == [1, 2]


def test_what_goes_wrong_while_loading_is_not_hidden_and_gives_the_turn_up(project: Project) -> None:
    project.state.mkdir(parents=True)

    def fail() -> None:
        raise ImportError("broken installation")

    with pytest.raises(ImportError, match="broken installation"):
        load_in_turn(str(project.path), fail)
    assert load_in_turn(str(project.path), list)
