"""The plugin: files that the agent accepts, and a hook that works with and without the program."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import click
import pytest

from reflector.cli.app import reflector as cli
from reflector.hooks.agents import CLAUDE
from reflector.hooks.reach import PLUGIN
from tests.conftest import first_fast
from tests.hooks.conftest import Project, event

ROOT = Path(__file__).resolve().parents[2]
PLUGIN_ROOT = ROOT / ".claude-plugin" / "reflector"
COMMAND_FIELDS = {
    "description",
    "argument-hint",
    "allowed-tools",
    "disable-model-invocation",
    "model",
}
PROMPTS = sorted([*PLUGIN_ROOT.glob("commands/*.md"), *PLUGIN_ROOT.glob("skills/*/SKILL.md")])
HOOKS = json.loads((PLUGIN_ROOT / "hooks" / "hooks.json").read_text("utf-8"))


def test_marketplace_points_to_the_plugin_in_the_repository() -> None:
    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text("utf-8"))
    manifest = json.loads((PLUGIN_ROOT / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    (entry,) = marketplace["plugins"]
    assert entry["source"] == "./.claude-plugin/reflector"
    assert entry["name"] == manifest["name"] == PLUGIN
    assert {key: type(value) for key, value in manifest.items()} == {
        **dict.fromkeys(("name", "version", "description", "license"), str),
        "author": dict,
        "keywords": list,  # a wrong type keeps the plugin from loading
    }
    assert {path.name for path in PLUGIN_ROOT.iterdir()} == {
        ".claude-plugin",
        "commands",
        "hooks",
        "skills",
    }
    assert not any(path.is_symlink() for path in PLUGIN_ROOT.rglob("*"))


def test_plugin_hooks_are_known_events_with_a_timeout() -> None:
    assert list(HOOKS) == ["description", "hooks"]
    assert list(HOOKS["hooks"]) == list(CLAUDE.events)
    for name, groups in HOOKS["hooks"].items():
        (group,) = groups
        assert list(group) == ["hooks"]  # no matcher: every source, trigger and agent
        (handler,) = group["hooks"]
        assert {key: handler[key] for key in ("type", "timeout")} == {
            "type": "command",
            "timeout": CLAUDE.events[name],
        }
        (script,) = re.findall(r"\$\{CLAUDE_PLUGIN_ROOT\}/([^\"]+)", handler["command"])
        assert (PLUGIN_ROOT / script).is_file()


def run_hook(
    project: Project, root: Path, path: str, name: str = "SessionStart"
) -> tuple[str, str]:
    """What the plugin's command prints when the client runs it."""
    project.environ = {"PATH": path, "CLAUDE_PLUGIN_ROOT": str(root)}
    command = ["sh", "-c", HOOKS["hooks"][name][0]["hooks"][0]["command"]]
    out, err = project.hook(event(name, cwd=str(project.path)), command=command)
    return out.decode(), err.decode()


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


@pytest.mark.parametrize("where", first_fast(1, ["path", "home"]))
def test_the_hook_finds_the_program(
    project: Project, tmp_path: Path, no_program: str, where: str
) -> None:
    project.write_playbook(("pat-001", "Test first.", 2, 0))
    root = tmp_path / "a plugin's folder"
    shutil.copytree(PLUGIN_ROOT, root)
    if where == "path":
        no_program = os.pathsep.join([program(tmp_path / "bin", US), no_program])
    else:
        project.home = tmp_path / "my home"
        program(project.home / ".local" / "bin", US)
    out, err = run_hook(project, root, no_program)
    assert ("[pat-001] helpful=2 harmful=0 :: Test first." in out, err) == (True, "")


@pytest.mark.parametrize("name", CLAUDE.events)
def test_start_without_the_program_explains_the_installation(
    project: Project, no_program: str, name: str
) -> None:
    out, err = run_hook(project, PLUGIN_ROOT, no_program, name)
    assert err.startswith(f"reflector is not installed: run 'uv tool install {ROOT}' or ")
    assert (json.loads(out) if out else name) == (
        {"systemMessage": err[:-1]} if name == "SessionStart" else name
    )


def test_installation_names_the_repository_of_the_plugin(
    project: Project, tmp_path: Path, no_program: str
) -> None:
    plugins = tmp_path / "plugins"
    root = plugins / "cache" / "reflector" / "reflector" / "0.1.0"
    shutil.copytree(PLUGIN_ROOT, root)
    assert "'uv tool install .' or " in run_hook(project, root, no_program)[1]
    repository = plugins / "marketplaces" / "reflector"
    (repository / ".claude-plugin").mkdir(parents=True)
    (repository / "pyproject.toml").touch()
    assert f"run 'uv tool install {repository}' or" in run_hook(project, root, no_program)[1]


@pytest.mark.parametrize("relative", ["", ".", "bin"])
def test_program_in_the_working_folder_is_not_run(
    project: Project,
    tmp_path: Path,
    no_program: str,
    monkeypatch: pytest.MonkeyPatch,
    relative: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "reflector").write_text(
            f"#!/bin/sh\n# from reflector.__main__ import main\ntouch {tmp_path}/ran\n"
        )
        (folder / "reflector").chmod(0o755)
    assert (
        run_hook(project, PLUGIN_ROOT, os.pathsep.join([relative, no_program]), "SessionEnd")[0]
        == ""
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd"])
def test_foreign_program_of_our_name_gets_no_event(
    project: Project, tmp_path: Path, no_program: str, name: str
) -> None:
    other = program(tmp_path / "bin", f"echo FOREIGN; cat >> {tmp_path}/got; sleep 60; exit 2")
    out, _ = run_hook(project, PLUGIN_ROOT, os.pathsep.join([other, no_program]), name)
    said = f"reflector is not installed ({other}/reflector is another program): run "
    assert ("FOREIGN" in out, said in out) == (False, name == "SessionStart")
    assert not (tmp_path / "got").exists() or "session_id" not in (tmp_path / "got").read_text()


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.parent.name + "-" + path.stem)
def test_prompt_has_known_fields_and_existing_commands(
    path: Path,
) -> None:
    _, head, body = path.read_text("utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    used = re.findall(r"`reflector ([a-z-]+)([^`]*)`", body)
    if path.name == "SKILL.md":
        assert (set(fields), fields["name"]) == ({"name", "description"}, path.parent.name)
    else:
        assert set(fields) <= COMMAND_FIELDS
        # An unquoted [ begins a list, and the field wants a text.
        assert fields["argument-hint"][0] != "["
        assert "$ARGUMENTS" in body
        allowed = re.findall(r"Bash\(reflector ([a-z-]+):\*\)", fields["allowed-tools"])
        assert set(allowed) == {name for name, _ in used}
    assert used
    for name, rest in used:
        command = cli.get_command(click.Context(cli), name)
        if isinstance(command, click.Group):
            command = command.commands.get(rest.split()[0], command) if rest.split() else command
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
