"""The README is executed: its commands run, its claims about commands and files hold."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from reflector.cli.app import COMMANDS, run

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_is_in_the_readme() -> None:
    missing = [name for name in COMMANDS if not re.search(rf"`[^`]*\b{re.escape(name)}\b", README)]
    assert missing == []


def test_the_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_quick_start_prints_what_the_readme_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"\$ reflector (add .+)\n(.+)\n", README)
    assert shown is not None
    assert run(["--project", str(tmp_path), *shlex.split(shown[1])]) == 0
    assert capsys.readouterr().out.strip() == shown[2]


def test_the_demo_shows_what_the_readme_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--keep", str(tmp_path / "demo")]) == 0
    demo = capsys.readouterr().out
    listed = README.split("$ reflector list\n", 1)[1].split("$ reflector", 1)[0]
    for line in listed.splitlines():
        assert line.strip() in demo
    assert "[pat-002] helpful=1 harmful=2" in demo
    assert "playbook.imported" in demo
    assert not demo.rstrip().splitlines()[-1].startswith("position")


def test_the_settings_of_the_quick_start_are_json_with_events_that_old_clients_know() -> None:
    import json

    block = re.search(r"```json\n(.+?)```", README, re.DOTALL)
    assert block is not None
    events = set(json.loads(block[1])["hooks"])
    assert events == {"SessionStart", "SubagentStart", "SubagentStop", "PreCompact", "Stop", "SessionEnd"}


def test_every_setting_is_in_the_readme() -> None:
    from reflector.config import SETTINGS

    for name in SETTINGS:
        assert f"| `{name}` |" in README
