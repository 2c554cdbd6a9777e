"""The plugin: files that the agent accepts, and a hook that works with and without the program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import reflector
from reflector.cli.app import reflector as cli
from reflector.cli.commands import COMMANDS
from reflector.hooks.install import EVENTS
from reflector.hooks.reach import PLUGIN
from tests.hooks.conftest import Project, event

ROOT = Path(__file__).resolve().parents[2]
MARKETPLACE = ROOT / ".claude-plugin" / "marketplace.json"
#: Fields with the type that the client's schema gives them; a wrong type keeps the plugin from loading.
MANIFEST_FIELDS = {
    "name": str,
    "version": str,
    "description": str,
    "author": dict,
    "homepage": str,
    "repository": str,
    "license": str,
    "keywords": list,
}
COMMAND_FIELDS = {"description", "argument-hint", "allowed-tools", "disable-model-invocation", "model"}
SLASH_COMMANDS = ["lesson-outcome", "playbook", "playbook-why", "playbook-add", "playbook-import-history"]


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def plugin_root() -> Path:
    (entry,) = load(MARKETPLACE)["plugins"]
    return ROOT / str(entry["source"])


def front_matter(path: Path) -> tuple[dict[str, str], str]:
    """A prompt file's fields and its text."""
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.splitlines()), body


def prompts() -> list[Path]:
    root = plugin_root()
    return sorted([*root.glob("commands/*.md"), *root.glob("skills/*/SKILL.md")])


def test_the_marketplace_points_to_the_plugin_inside_this_repository() -> None:
    marketplace = load(MARKETPLACE)
    assert re.fullmatch(r"[a-z0-9-]+", marketplace["name"])
    assert isinstance(marketplace["owner"]["name"], str)
    (entry,) = marketplace["plugins"]
    assert entry["source"].startswith("./")
    assert ".." not in entry["source"]
    manifest = load(plugin_root() / ".claude-plugin" / "plugin.json")
    assert entry["name"] == manifest["name"] == PLUGIN


def test_the_manifest_has_fields_of_the_right_type_and_our_version() -> None:
    manifest = load(plugin_root() / ".claude-plugin" / "plugin.json")
    assert {key for key, value in manifest.items() if not isinstance(value, MANIFEST_FIELDS[key])} == set()
    assert manifest["version"] == reflector.__version__
    assert set(manifest["author"]) <= {"name", "email", "url"}
    assert all(isinstance(word, str) for word in manifest["keywords"])


def test_the_plugin_holds_what_the_client_looks_for_and_no_links() -> None:
    root = plugin_root()
    assert {path.name for path in root.iterdir()} == {".claude-plugin", "commands", "hooks", "skills"}
    assert not any(path.is_symlink() for path in root.rglob("*"))


def test_the_hooks_are_for_events_that_old_clients_know_with_a_time_each() -> None:
    document = load(plugin_root() / "hooks" / "hooks.json")
    assert set(document) == {"description", "hooks"}
    assert isinstance(document["description"], str)
    assert list(document["hooks"]) == list(EVENTS)
    for name, groups in document["hooks"].items():
        (group,) = groups
        assert set(group) == {"hooks"}  # no matcher: every source, trigger and agent
        (handler,) = group["hooks"]
        assert set(handler) == {"type", "command", "timeout"}
        assert handler["type"] == "command"
        assert handler["timeout"] == EVENTS[name]
        assert all(
            (plugin_root() / path).is_file()
            for path in re.findall(r"\$\{CLAUDE_PLUGIN_ROOT\}/([^\"]+)", handler["command"])
        )


def run_hook(
    project: Project, root: Path, path: str, name: str = "SessionStart", home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The plugin's command as the client runs it."""
    command = load(plugin_root() / "hooks" / "hooks.json")["hooks"][name][0]["hooks"][0]["command"]
    return subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(event(name, cwd=str(project.path))),
        env={
            "PATH": path,
            "HOME": str(home or project.home),
            "CLAUDE_PROJECT_DIR": str(project.path),
            "CLAUDE_PLUGIN_ROOT": str(root),
            "REFLECTOR_NO_SPAWN": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
    )


def program(folder: Path, text: str) -> str:
    """Put a program named reflector into a folder; the folder, for a PATH."""
    folder.mkdir(parents=True)
    path = folder / "reflector"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(folder)


@pytest.fixture
def no_program(tmp_path: Path) -> str:
    """A PATH on which there is a shell and no reflector."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("sh", "env"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return str(folder)


US = f'exec "{sys.executable}" -I -m reflector "$@"'


@pytest.mark.parametrize("where", ["path", "home"])
def test_the_hook_finds_the_program(project: Project, tmp_path: Path, no_program: str, where: str) -> None:
    project.write_playbook(("pat-001", "Test first.", 2, 0))
    root = tmp_path / "a plugin's folder"
    shutil.copytree(plugin_root(), root)
    if where == "path":
        done = run_hook(project, root, os.pathsep.join([program(tmp_path / "bin", US), no_program]))
    else:
        program(tmp_path / "my home" / ".local" / "bin", US)
        done = run_hook(project, root, no_program, home=tmp_path / "my home")
    assert (done.returncode, done.stderr) == (0, "")
    assert "[pat-001] helpful=2 harmful=0 :: Test first." in done.stdout


@pytest.mark.parametrize("name", EVENTS)
def test_without_the_program_a_sessions_start_tells_the_user_what_to_do_and_nothing_else_is_printed(
    project: Project, no_program: str, name: str
) -> None:
    done = run_hook(project, plugin_root(), no_program, name)
    assert (done.returncode, bool(done.stdout)) == (0, name == "SessionStart")
    assert done.stderr.startswith(f"reflector is not installed: run 'uv tool install {ROOT}' or ")
    if done.stdout:
        assert json.loads(done.stdout) == {"systemMessage": done.stderr.rstrip("\n")}


def test_the_way_to_the_program_leads_to_the_repository_that_the_client_keeps_beside_its_plugins(
    project: Project, tmp_path: Path, no_program: str
) -> None:
    plugins = tmp_path / "plugins"
    root = plugins / "cache" / "reflector" / "reflector" / "0.1.0"
    shutil.copytree(plugin_root(), root)
    assert "'uv tool install .' or 'pipx install .' in reflector's repository" in (
        run_hook(project, root, no_program).stderr
    )
    repository = plugins / "marketplaces" / "reflector"
    (repository / ".claude-plugin").mkdir(parents=True)
    (repository / "pyproject.toml").touch()
    assert f"run 'uv tool install {repository}' or" in run_hook(project, root, no_program).stderr


@pytest.mark.parametrize("name", EVENTS)
def test_another_program_of_the_name_does_not_stop_the_agent(
    project: Project, tmp_path: Path, no_program: str, name: str
) -> None:
    other = program(tmp_path / "bin", "echo 'usage: reflector [--latest N]' >&2; exit 2")
    done = run_hook(project, plugin_root(), os.pathsep.join([other, no_program]), name)
    assert (done.returncode, "usage" in done.stdout) == (0, False)


@pytest.mark.parametrize("relative", ["", ".", "bin"])
def test_a_program_of_the_folder_that_the_agent_works_in_is_not_run(
    project: Project, tmp_path: Path, no_program: str, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "reflector").write_text(f"#!/bin/sh\n# from reflector.__main__ import main\ntouch {tmp_path}/ran\n")
        (folder / "reflector").chmod(0o755)
    done = run_hook(project, plugin_root(), os.pathsep.join([relative, no_program]), "SessionEnd")
    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "ran").exists()


def test_another_program_of_the_name_gets_no_event_and_tells_the_agent_nothing(
    project: Project, tmp_path: Path, no_program: str
) -> None:
    other = program(tmp_path / "bin", f"echo FOREIGN; cat >> {tmp_path}/got; sleep 60")
    done = run_hook(project, plugin_root(), os.pathsep.join([other, no_program]), "SessionStart")
    assert (done.returncode, list(json.loads(done.stdout))) == (0, ["systemMessage"])
    assert f"reflector is not installed ({other}/reflector is another program): run " in done.stdout
    assert "FOREIGN" not in done.stdout
    assert "session_id" not in ((tmp_path / "got").read_text() if (tmp_path / "got").exists() else "")


def test_a_plugin_folder_that_is_gone_does_not_stop_the_agent(
    project: Project, tmp_path: Path, no_program: str
) -> None:
    assert run_hook(project, tmp_path / "gone", no_program, "Stop").returncode == 0


def test_the_slash_commands_are_there() -> None:
    assert sorted(path.stem for path in plugin_root().glob("commands/*.md")) == sorted(SLASH_COMMANDS)


@pytest.mark.parametrize("path", prompts(), ids=lambda path: path.parent.name + "-" + path.stem)
def test_a_prompt_has_the_fields_that_the_client_knows(path: Path) -> None:
    fields, body = front_matter(path)
    assert 0 < len(fields["description"]) <= 1024
    assert body.strip()
    if path.name == "SKILL.md":
        assert set(fields) == {"name", "description"}
        assert fields["name"] == path.parent.name
        assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    else:
        assert set(fields) <= COMMAND_FIELDS
        assert fields.get("disable-model-invocation", "true") in ("true", "false")
        # An unquoted [ begins a list, and the field wants a text.
        assert fields["argument-hint"][0] != "["
        assert "$ARGUMENTS" in body


@pytest.mark.parametrize("path", prompts(), ids=lambda path: path.parent.name + "-" + path.stem)
def test_a_prompt_runs_commands_that_exist_and_may_run_them(path: Path) -> None:
    fields, body = front_matter(path)
    used = re.findall(r"`reflector ([a-z-]+)([^`]*)`", body)
    assert used
    allowed = re.findall(r"Bash\(reflector ([a-z-]+):\*\)", fields.get("allowed-tools", ""))
    for name, rest in used:
        assert name in COMMANDS
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
    if path.name != "SKILL.md":
        assert set(allowed) == {name for name, _ in used}
