"""The plugin: files that the agent accepts, and a hook that works with and without the program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import reflector
from reflector.cli.app import reflector as cli
from reflector.hooks.install import EVENTS
from reflector.hooks.reach import PLUGIN
from tests.hooks.conftest import Project, event

ROOT = Path(__file__).resolve().parents[2]
PLUGIN_ROOT = ROOT / ".claude-plugin" / "reflector"
#: Fields with the type that the client's schema gives them; a wrong type keeps the plugin from loading.
MANIFEST_FIELDS = {"name": str, "version": str, "description": str, "author": dict, "license": str, "keywords": list}
COMMAND_FIELDS = {"description", "argument-hint", "allowed-tools", "disable-model-invocation", "model"}
PROMPTS = sorted([*PLUGIN_ROOT.glob("commands/*.md"), *PLUGIN_ROOT.glob("skills/*/SKILL.md")])
HOOKS = json.loads((PLUGIN_ROOT / "hooks" / "hooks.json").read_text("utf-8"))


def test_the_marketplace_points_to_the_plugin_inside_this_repository() -> None:
    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text("utf-8"))
    manifest = json.loads((PLUGIN_ROOT / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    (entry,) = marketplace["plugins"]
    assert re.fullmatch(r"[a-z0-9-]+", marketplace["name"])
    assert isinstance(marketplace["owner"]["name"], str)
    assert entry["source"] == "./.claude-plugin/reflector"
    assert entry["name"] == manifest["name"] == PLUGIN
    assert {key for key, value in manifest.items() if not isinstance(value, MANIFEST_FIELDS[key])} == set()
    assert manifest["version"] == reflector.__version__
    assert set(manifest["author"]) <= {"name", "email", "url"}
    assert all(isinstance(word, str) for word in manifest["keywords"])
    assert {path.name for path in PLUGIN_ROOT.iterdir()} == {".claude-plugin", "commands", "hooks", "skills"}
    assert not any(path.is_symlink() for path in PLUGIN_ROOT.rglob("*"))


def test_the_hooks_are_for_events_that_old_clients_know_with_a_time_each() -> None:
    assert list(HOOKS) == ["description", "hooks"]
    assert list(HOOKS["hooks"]) == list(EVENTS)
    for name, groups in HOOKS["hooks"].items():
        (group,) = groups
        assert list(group) == ["hooks"]  # no matcher: every source, trigger and agent
        (handler,) = group["hooks"]
        assert {key: handler[key] for key in ("type", "timeout")} == {"type": "command", "timeout": EVENTS[name]}
        (script,) = re.findall(r"\$\{CLAUDE_PLUGIN_ROOT\}/([^\"]+)", handler["command"])
        assert (PLUGIN_ROOT / script).is_file()


def run_hook(
    project: Project, root: Path, path: str, name: str = "SessionStart", home: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The plugin's command as the client runs it."""
    command = HOOKS["hooks"][name][0]["hooks"][0]["command"]
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
    shutil.copytree(PLUGIN_ROOT, root)
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
    done = run_hook(project, PLUGIN_ROOT, no_program, name)
    assert (done.returncode, bool(done.stdout)) == (0, name == "SessionStart")
    assert done.stderr.startswith(f"reflector is not installed: run 'uv tool install {ROOT}' or ")
    if done.stdout:
        assert json.loads(done.stdout) == {"systemMessage": done.stderr.rstrip("\n")}


def test_the_way_to_the_program_leads_to_the_repository_that_the_client_keeps_beside_its_plugins(
    project: Project, tmp_path: Path, no_program: str
) -> None:
    plugins = tmp_path / "plugins"
    root = plugins / "cache" / "reflector" / "reflector" / "0.1.0"
    shutil.copytree(PLUGIN_ROOT, root)
    assert "'uv tool install .' or 'pipx install .' in reflector's repository" in (
        run_hook(project, root, no_program).stderr
    )
    repository = plugins / "marketplaces" / "reflector"
    (repository / ".claude-plugin").mkdir(parents=True)
    (repository / "pyproject.toml").touch()
    assert f"run 'uv tool install {repository}' or" in run_hook(project, root, no_program).stderr


@pytest.mark.parametrize("relative", ["", ".", "bin"])
def test_a_program_of_the_folder_that_the_agent_works_in_is_not_run(
    project: Project, tmp_path: Path, no_program: str, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "reflector").write_text(f"#!/bin/sh\n# from reflector.__main__ import main\ntouch {tmp_path}/ran\n")
        (folder / "reflector").chmod(0o755)
    done = run_hook(project, PLUGIN_ROOT, os.pathsep.join([relative, no_program]), "SessionEnd")
    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", EVENTS)
def test_another_program_of_the_name_gets_no_event_and_does_not_stop_the_agent(
    project: Project, tmp_path: Path, no_program: str, name: str
) -> None:
    other = program(tmp_path / "bin", f"echo FOREIGN; cat >> {tmp_path}/got; sleep 60; exit 2")
    done = run_hook(project, PLUGIN_ROOT, os.pathsep.join([other, no_program]), name)
    assert (done.returncode, "FOREIGN" in done.stdout) == (0, False)
    if name == "SessionStart":
        assert list(json.loads(done.stdout)) == ["systemMessage"]
        assert f"reflector is not installed ({other}/reflector is another program): run " in done.stdout
    assert "session_id" not in ((tmp_path / "got").read_text() if (tmp_path / "got").exists() else "")
    assert run_hook(project, tmp_path / "gone", no_program, name).returncode == 0


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.parent.name + "-" + path.stem)
def test_a_prompt_has_the_fields_that_the_client_knows_and_runs_commands_that_exist(path: Path) -> None:
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    used = re.findall(r"`reflector ([a-z-]+)([^`]*)`", body)
    assert 0 < len(fields["description"]) <= 1024
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
        allowed = re.findall(r"Bash\(reflector ([a-z-]+):\*\)", fields["allowed-tools"])
        assert set(allowed) == {name for name, _ in used}
    assert used
    for name, rest in used:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
