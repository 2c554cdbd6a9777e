"""Lines that stand in a user's files, called by the real client."""

import json
import os
from pathlib import Path

import pytest

from reflector.hooks.agents import CLAUDE
from reflector.hooks.install import HookList
from tests.client.apis import ADVICE, FIX
from tests.client.client import Client
from tests.hooks.kept import HOOKS, SERVERS, STATUS_LINES, filled, put_program


@pytest.fixture
def line(bare: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str) -> str:
    """The written line with the paths of this installation, whose program is on the PATH."""
    program = put_program(tmp_path / "my bin")
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    return filled(written, program, bare.agent.project, bare.agent.home)


@pytest.mark.parametrize("written", HOOKS[:-1])  # the last is the plugin's
def test_hook_reaches_the_model_and_counts(bare: Client, line: str) -> None:
    path = bare.config / "settings.json"
    path.write_text(HookList(CLAUDE.events).install(path.read_text(), line))
    bare.prints(FIX)
    assert ADVICE in bare.api.told(FIX)
    bare.check(("SessionEnd", "pat-001"), helpful=1)


@pytest.mark.usefixtures("terminal_is_there")
@pytest.mark.parametrize("written", STATUS_LINES)
def test_status_line_is_on_the_screen(bare: Client, line: str) -> None:
    bare.agent.run("list")
    path = bare.config / "settings.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "statusLine": {"type": "command", "command": line}}))
    with bare.terminal() as terminal:
        texts = ("auto mode as my default", "playbook: 3 ")
        bare.agent.wait_until(lambda: any(text in terminal.screen() for text in texts))
        if texts[0] in terminal.screen():  # a question of 2.1.332
            terminal.press("Down", "Enter")
        terminal.see("playbook: 3 ")
        terminal.leave()


@pytest.mark.parametrize("written", SERVERS)
def test_server_is_connected(bare: Client, line: str, tmp_path: Path) -> None:
    server = {"command": "sh", "args": ["-c", line]}
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"reflector": server}}))
    bare.prints(FIX, "--mcp-config", str(path))
    assert "mcp__reflector__" in json.dumps(bare.api.told(FIX))
