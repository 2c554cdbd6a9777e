"""The plugin, given with --plugin-dir: alone, and beside hooks in the settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.client.client import Client
from tests.client.messages_api import told
from tests.client.test_printed import FIX, FIXED

PLUGIN = Path(__file__).parents[2] / ".claude-plugin" / "reflector"


@pytest.fixture
def plugged(bare: Client) -> Client:
    """A client with the plugin, and with the program where pipx puts it."""
    if not PLUGIN.is_dir():
        pytest.skip("this source has no plugin")
    program = bare.agent.home / ".local" / "bin" / "reflector"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -m reflector "$@"\n')
    program.chmod(0o755)
    bare.flags += ["--plugin-dir", str(PLUGIN)]
    return bare


def _advice(client: Client) -> int:
    """How often the first request says what the playbook says."""
    first, *_ = client.api.asked_about(FIX)
    return told(first).count("[pat-001] helpful=0 harmful=0 :: Write the failing test first.")


def test_the_plugin_tells_the_playbook_and_counts_a_citation_once(plugged: Client) -> None:
    plugged.api.when(FIX, *FIXED)
    printed = plugged.prints(FIX)
    (init,) = (line for line in printed.lines if line.get("subtype") == "init")
    assert "reflector" in str(init["plugins"])
    assert any(command.startswith("reflector:playbook") for command in init["slash_commands"])
    assert _advice(plugged) == 1
    plugged.settle()
    assert plugged.cited() == [("SessionEnd", "pat-001")]
    assert plugged.agent.counters()["pat-001"] == (1, 0)
    plugged.check()


def test_the_plugin_beside_installed_hooks_counts_a_citation_once(plugged: Client) -> None:
    plugged.agent.run("install")
    plugged.api.when(FIX, *FIXED)
    plugged.prints(FIX)
    assert _advice(plugged) == 2
    plugged.settle()
    assert plugged.cited() == [("SessionEnd", "pat-001")]
    assert plugged.agent.counters()["pat-001"] == (1, 0)
    plugged.check()
