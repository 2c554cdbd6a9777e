"""The plugin, given with --plugin-dir: alone, and beside hooks in the settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.client.apis import ADVICE, FIX
from tests.client.client import Client

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


@pytest.mark.parametrize("is_installed", [False, True])
def test_the_plugin_prints_the_playbook_and_counts_a_citation_once_also_beside_hooks(
    plugged: Client, is_installed: bool
) -> None:
    if is_installed:
        plugged.agent.run("install")
    printed = plugged.prints(FIX)
    (init,) = (line for line in printed.lines if line.get("subtype") == "init")
    assert "reflector" in str(init["plugins"])
    assert any(command.startswith("reflector:playbook") for command in init["slash_commands"])
    assert plugged.api.told(FIX).count(ADVICE) == 1 + is_installed
    plugged.check(("SessionEnd", "pat-001"), helpful=1)
