"""The README is executed: its commands run, its claims about commands and files hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.cli.app import run

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_is_generated_is_what_the_commands_say() -> None:
    done = subprocess.run([sys.executable, "-m", "tests.schemas", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""


def test_every_page_of_the_documents_is_in_the_readmes_index() -> None:
    index = README.partition("\n## Documentation\n")[2].partition("\n## ")[0]
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in index] == []


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


def test_the_demo_shows_every_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--keep", str(tmp_path / "demo")]) == 0
    demo = capsys.readouterr().out
    assert "[pat-002] helpful=1 harmful=2" in demo
    assert [line for line in demo.splitlines() if len(line) > 80 and "Look around" not in line] == []
    assert demo.count("\n") <= 72
    # The other systems: a judged trajectory, a gated summary, a revised turn, and a lesson that proved itself.
    for system in ("pat-001 harmful", "done the discount applies", "line 12. (1.00)", "0.54 → 0.64"):
        assert system in demo
    assert not demo.rstrip().splitlines()[-1].startswith("position")


def test_the_slash_commands_and_the_plugin_of_the_readme_are_there() -> None:
    import json

    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text("utf-8"))
    (plugin,) = marketplace["plugins"]
    assert f"claude plugin install {plugin['name']}@{marketplace['name']}" in README
    # The client knows a plugin's commands by the plugin's name too.
    shown = set(re.findall(rf"`/{plugin['name']}:([a-z-]+)", README))
    assert shown == {path.stem for path in (ROOT / plugin["source"] / "commands").glob("*.md")}


def test_the_page_of_security_says_of_every_setting_what_a_repository_may_set() -> None:
    from reflector.config import SETTINGS, USERS_OWN

    section = (ROOT / "docs" / "trust.md").read_text("utf-8").split("\n### Settings\n")[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE))
    listed = {name: said for names, said in rows.items() for name in re.findall(r"`(\w+)`", names)}
    lacks = sorted(SETTINGS.keys() - listed.keys())
    assert not lacks, f"docs/trust.md, Settings, lacks {', '.join(lacks)}"
    assert {name for name, said in listed.items() if said == "nothing"} == set(USERS_OWN)


def test_every_setting_is_in_the_page_of_the_configuration() -> None:
    from reflector.config import SETTINGS

    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert [name for name in SETTINGS if f"| `{name}` |" not in page] == []
