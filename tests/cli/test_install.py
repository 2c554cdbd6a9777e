"""Installed into each agent's settings, at work, and out of them again without a trace."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reflector.hooks.agents import AGENTS, CLAUDE
from reflector.hooks.install import HookList, hook_command
from tests.conftest import first_fast
from tests.hooks.conftest import REFUSED, SHAPES
from tests.road.agent import Agent

install = HookList(CLAUDE.events).install
EVERY_FILE = [(name, scope) for name in AGENTS for scope in AGENTS[name].files]
OLD = "/old/venv/bin/python -I -S /old/lib/reflector/hooks/fast.py"
OPUS = b'{\n  "model": "opus"\n}\n'
ROOT = Path(__file__).parents[2]


def file_of(agent: Agent, name: str = "claude", scope: str = "user") -> Path:
    return AGENTS[name].paths(agent.project)[scope]  # type: ignore[index]


def put(
    agent: Agent, content: bytes, name: str = "claude", scope: str = "user", mode: int = 0o644
) -> Path:
    path = file_of(agent, name, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: where, its mode and content; a link as what it points to."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else b"",
        )
        for path in folder.rglob("*")
        if path.relative_to(folder).parts[0] != ".local"  # what is known of ledgers
    }


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".reflector-backup")


def commands(path: Path, name: str = "claude") -> dict[str, str]:
    """The command of each event of ours in a settings file."""
    return {
        one.event: one.command for one in AGENTS[name].form.handlers(path.read_text("utf-8-sig"))
    }


def fire(agent: Agent, command: str, **fields: Any) -> tuple[str, str]:
    """Run a hook as the agent does: by a shell, with the payload on stdin."""
    payload = json.dumps({"cwd": str(agent.project), **fields})
    environ = agent.env(REFLECTOR_NO_SPAWN="1")
    done = subprocess.run(
        ["sh", "-c", command],
        input=payload,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    return done.stdout, done.stderr


def notes(agent: Agent, *arguments: str) -> list[str]:
    return agent.call("install", *arguments).err.splitlines()


@pytest.mark.parametrize(
    "shape", first_fast(1, ["byte order mark", "empty event", "aligned by hand"])
)
def test_uninstall_restores_the_file_byte_for_byte(agent: Agent, shape: str) -> None:
    path = put(agent, SHAPES[shape], mode=0o640)
    before = seen(agent.home)
    told = agent.call("install").err
    reformats = f"`install` also changes the format of other lines in {path}"
    assert (reformats in told) == (shape != "byte order mark")
    assert agent.call("install").err == ""
    assert backup_of(path).read_bytes() == SHAPES[shape]
    assert (
        stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(backup_of(path).stat().st_mode) == 0o640
    )
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == SHAPES[shape].startswith(
        b"\xef\xbb\xbf"
    )
    out, err = fire(
        agent, commands(path)["SessionStart"], hook_event_name="SessionStart", source="startup"
    )
    assert ("[pat-002] helpful=3 harmful=1 :: Keep functions small." in out, err) == (True, "")
    agent.call("uninstall")
    assert seen(agent.home) == before


@pytest.mark.parametrize(
    ("name", "made", "words"),
    [
        ("claude", lambda path: path.write_bytes(REFUSED["comment"][0]), REFUSED["comment"][1]),
        ("claude", lambda path: path.write_bytes(REFUSED["UTF-16"][0]), REFUSED["UTF-16"][1]),
        (
            "pi",
            lambda path: path.write_bytes(b"export default () => {}\n"),
            "another program wrote this file",
        ),
        ("claude", os.mkfifo, "not a regular file"),
        ("claude", lambda path: path.symlink_to(path.parent / "gone" / "settings.json"), "gone"),
    ],
)
def test_what_cannot_hold_hooks_is_refused(
    agent: Agent, name: str, made: Callable[[Path], object], words: str
) -> None:
    path = file_of(agent, name)
    path.parent.mkdir(parents=True)
    made(path)
    before = seen(agent.home)
    told = agent.call("install", "--agent", name, code=1).err
    assert (str(agent.home) in told, words in told, "Traceback" in told) == (True, True, False)
    assert seen(agent.home) == before


@pytest.mark.parametrize(("name", "scope"), EVERY_FILE)
def test_missing_files_are_created_and_removed_again(tmp_path: Path, name: str, scope: str) -> None:
    agent = Agent.bare(tmp_path)
    where = ("--agent", name, "--scope", scope)
    assert agent.call("install", *where, "--dry-run").out.startswith("--- /dev/null\n+++ ")
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []
    told = agent.call("install", *where).out
    path = file_of(agent, name, scope)
    assert commands(path, name) == dict.fromkeys(AGENTS[name].events, hook_command())
    assert stat.S_IMODE(path.stat().st_mode) == (0o600 if scope == "user" else 0o644)
    options = ("" if name == "claude" else f" --agent {name}") + (
        "" if scope == "user" else f" --scope {scope}"
    )
    assert f"reflector uninstall{options}\n" in told
    before = seen(path.parent)
    assert "already has reflector's hooks" in agent.call("install", *where).out
    assert f"--- {path}" in agent.call("uninstall", *where, "--dry-run").out
    assert seen(path.parent) == before
    agent.call("uninstall", *where)
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []


def test_scope_changes_only_its_own_file(
    agent: Agent,
) -> None:
    paths = {scope: put(agent, OPUS, scope=scope) for scope in ("user", "project", "local")}
    agent.call("install", "--scope", "local")
    assert [scope for scope, path in paths.items() if path.read_bytes() != OPUS] == ["local"]
    # a wrong setting of ours stops neither
    (agent.claude / "reflector.toml").write_text("backned = 1")
    told = agent.call("uninstall")
    assert (
        f"{paths['local']} still calls reflector; to stop these calls: "
        "reflector uninstall --scope local\n"
    ) in told.err
    assert "does not contain reflector's hooks" in told.out
    refused = agent.call("install", "--agent", "codex", "--scope", "local", code=2).err
    assert "use --scope project" in refused


ODD = SHAPES["empty hooks between others"]
BY_HAND = install(OPUS.decode(), "reflector hook").encode()


@pytest.mark.parametrize(
    ("file", "backup", "kept", "spoilt", "after", "left"),
    [
        pytest.param(
            install(ODD.decode(), OLD).encode(),
            ODD,
            ODD,
            None,
            ODD,
            None,
            id="an older installation",
        ),
        pytest.param(
            install("", OLD).encode(),
            None,
            None,
            None,
            None,
            None,
            id="an older one that made the file",
        ),
        pytest.param(BY_HAND, None, BY_HAND, None, OPUS, BY_HAND, id="written by hand"),
        pytest.param(OPUS, b'{"model": "haiku"}', OPUS, None, OPUS, None, id="of an earlier file"),
        pytest.param(OPUS, OPUS, OPUS, None, OPUS, None, id="of a killed uninstallation"),
        pytest.param(OPUS, None, OPUS, b"{", OPUS, b"{", id="broken since"),
        pytest.param(OPUS, None, OPUS, b'{"model": 1}', OPUS, b'{"model": 1}', id="edited since"),
    ],
)
def test_backup_is_the_file_before_the_first_hook(
    agent: Agent, file: bytes, backup: bytes, kept: bytes, spoilt: bytes, after: bytes, left: bytes
) -> None:
    def read(path: Path) -> bytes | None:
        return path.read_bytes() if path.exists() else None

    path = put(agent, file)
    if backup:
        backup_of(path).write_bytes(backup)
    agent.call("install")
    assert set(commands(path).values()) == {hook_command()}
    assert read(backup_of(path)) == kept
    if spoilt:
        backup_of(path).write_bytes(spoilt)
    agent.call("uninstall")
    assert (read(path), read(backup_of(path))) == (after, left)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_stays_its_persons_though_root_installs(agent: Agent) -> None:
    path = put(agent, OPUS)
    os.chown(path, 4_711, 4_712)
    agent.call("install")
    assert {(one.stat().st_uid, one.stat().st_gid) for one in (path, backup_of(path))} == {
        (4_711, 4_712)
    }


def test_link_stays_and_its_target_is_changed(agent: Agent, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_bytes(SHAPES["tabs"])
    path = file_of(agent)
    path.parent.mkdir()
    path.symlink_to("../../dotfiles/claude.json")
    before = seen(tmp_path)
    agent.call("install")
    assert path.is_symlink()
    assert len(commands(target)) == len(CLAUDE.events)
    assert list(target.parent.iterdir()) == [target]
    agent.call("uninstall")
    assert seen(tmp_path) == before


@pytest.mark.parametrize(("name", "scope"), [one for one in EVERY_FILE if one[1] != "user"])
@pytest.mark.parametrize("linked", ["file", "missing", "folder"])
def test_link_out_of_a_repository_is_refused(
    agent: Agent, name: str, scope: str, linked: str
) -> None:
    path = file_of(agent, name, scope)
    outside = agent.home / "mine" / path.name
    outside.parent.mkdir()
    if linked != "missing":
        outside.write_bytes(SHAPES["tabs"])
    if linked == "folder":
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.symlink_to(outside.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(outside)
    before = seen(agent.home)
    for command in ("install", "uninstall"):
        said = agent.call(command, "--agent", name, "--scope", scope, code=1).err
        assert f"{path} contains a link to {outside}, outside the project; remove the link" in said
    assert seen(agent.home) == before


@pytest.mark.slow
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_killed_install_leaves_the_old_or_new_file(agent: Agent, command: str) -> None:
    path = put(agent, ODD)
    clean = seen(agent.home)
    agent.call("install")
    ends = {path.read_bytes(), ODD}
    for step in range(1, 200):
        agent.call("install" if command == "uninstall" else "uninstall")
        killed = agent.killed_at(step, command)
        assert path.read_bytes() in ends
        if not killed:
            break
    assert 3 < step < 199
    agent.call("install")
    agent.call("uninstall")
    for left in path.parent.glob(".*.tmp"):
        left.unlink()
    assert seen(agent.home) == clean


@pytest.mark.slow
def test_simultaneous_commands_leave_one_whole_file(agent: Agent) -> None:
    path, before = file_of(agent), seen(agent.home)
    for command, times in (("install", 3), ("uninstall", 2)):
        for process in [agent.start(command) for _ in range(times)]:
            _, err = process.communicate(timeout=120)
            assert (process.returncode, err) == (0, "")
        assert command == "uninstall" or len(commands(path)) == len(CLAUDE.events)
    assert seen(agent.home) == before


def test_write_of_another_program_is_not_lost(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(agent, OPUS)
    edits = iter([None, b'{"model": "haiku"}'])  # the first is the look before it writes

    def and_meanwhile(_: HookList, text: str, command: str) -> str:
        if edit := next(edits, None):
            path.write_bytes(edit)
        return install(text, command)

    monkeypatch.setattr(HookList, "install", and_meanwhile)
    assert "changed after it was read" in agent.call("install", code=1).err
    assert path.read_bytes() == b'{"model": "haiku"}'
    agent.call("install")
    assert (json.loads(path.read_bytes())["model"], len(commands(path))) == (
        "haiku",
        len(CLAUDE.events),
    )
    assert backup_of(path).read_bytes() == b'{"model": "haiku"}'


def test_plugin_and_disabled_hooks_are_reported(
    agent: Agent,
) -> None:
    off = put(agent, b'{"hooksConfig": {"enabled": false}}', "gemini", "project")
    assert any(
        line.startswith(f"reflector: {off} has ") for line in notes(agent, "--agent", "gemini")
    )
    put(
        agent,
        (b'{"enabledPlugins": {"reflector@house": true, "other@house": true}}'),
        scope="project",
    )
    way_out = "to stop these calls: claude plugin uninstall reflector@house"
    plugin = f"reflector: the plugin reflector@house {{}} calls reflector; {way_out}"
    assert notes(agent) == [plugin.format("also")]
    assert agent.call("uninstall").err.splitlines()[-1] == plugin.format("still")
    put(agent, b'{"enabledPlugins": {"reflector@house": false}}', scope="local")
    assert notes(agent) == []


def test_other_callers_are_reported_with_their_removal(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "cd /x && reflector hook"}]}]}
    }
    path = put(agent, json.dumps(wrapped).encode(), scope="project")
    assert notes(agent) == [
        f"reflector: {path} also calls reflector; to stop these calls: edit this file"
    ]
    agent.call("install", "--agent", "codex")
    assert (
        "call the Python of this machine"
        in agent.call("install", "--agent", "codex", "--scope", "project").err
    )
    told = agent.call("uninstall").err
    assert (
        f"{file_of(agent, 'codex')} still calls reflector; to stop these calls: "
        "reflector uninstall --agent codex\n"
    ) in told
    passing = hook_command("/home/me/.cache/uv/archive-v0/x/bin/python")
    monkeypatch.setattr("reflector.hooks.install.hook_command", lambda: passing)
    assert [line for line in notes(agent) if "a temporary folder" in line]


def test_copilot_subagent_gets_the_playbook_without_event_name(agent: Agent) -> None:
    agent.environ["COPILOT_PROJECT_DIR"] = str(agent.project)
    out, _ = fire(
        agent, hook_command(), sessionId="s-1", agentName="general-purpose", agent_id="a-1"
    )
    assert "[pat-002]" in json.loads(out)["additionalContext"]
    agent.hook(
        "Stop", session_id="a-1", agent_id="a-1", parent_agent_id="s-1", transcript_path="/t.jsonl"
    )
    assert agent.deliveries() == []


@pytest.mark.parametrize("name", AGENTS)
def test_docs_name_each_agent_with_its_files(name: str) -> None:
    agent = AGENTS[name]
    page = (ROOT / "docs/agents.md").read_text("utf-8").splitlines()
    (row,) = [line for line in page if line.startswith(f"| `{name}` |")]
    assert f"${agent.home[0]}" in row
    assert agent.files["user"] in row
    assert f"`{agent.files['project']}`" in row
    assert agent.title in (ROOT / "README.md").read_text("utf-8")


def test_install_leads_a_project_with_rules_to_check(agent: Agent) -> None:
    shutil.rmtree(agent.claude)
    (agent.project / "CLAUDE.md").write_text(
        "# Rules\n\n- Run the linter before you push.\n- Never mock the database.\n"
    )
    assert "Next: reflector check (2 rules in CLAUDE.md)" in agent.call("install").out


def test_install_leads_a_playbook_to_its_counts(agent: Agent) -> None:
    assert (
        "Next: use your agent in this project, then run `reflector list`\n"
        in agent.call("install").out
    )


def test_install_leads_an_empty_project_to_add(tmp_path: Path) -> None:
    assert "Next: reflector add pat" in Agent.bare(tmp_path).call("install").out


_LINES = [
    "reflector statusline",
    "/home/ada/.local/bin/reflector statusline",
    "/opt/x/bin/python3 -I -m reflector statusline",
    "reflector --project '/home/ada/my shop' statusline",
    "exec reflector --user statusline || true",
]


@pytest.mark.parametrize("command", _LINES)
@pytest.mark.parametrize("is_installed", [True, False])
def test_uninstall_removes_our_status_line(agent: Agent, command: str, is_installed: bool) -> None:
    path = put(agent, OPUS)
    if is_installed:
        agent.call("install")
    settings = json.loads(path.read_text())
    settings["statusLine"] = {"type": "command", "command": command, "padding": 0}
    path.write_text(json.dumps(settings, indent=2) + "\n")
    assert "no longer calls reflector" in agent.call("uninstall").out
    assert path.read_bytes() == OPUS
    assert not backup_of(path).exists()


def test_status_line_from_before_the_hooks_goes(agent: Agent) -> None:
    line = b'{\n    "statusLine": {\n        "command": "reflector statusline"\n    },\n'
    path = put(agent, line + b'    "model": "opus"\n}\n')
    agent.call("install")
    agent.call("uninstall")
    assert path.read_bytes() == b'{\n    "model": "opus"\n}\n'


@pytest.mark.parametrize(
    "command",
    [
        "~/.claude/statusline.sh",
        "reflector status",
        "reflector statusline; date",
        "sh -c 'reflector statusline && git branch'",
        "/opt/other/reflector-statusline",
    ],
)
def test_uninstall_keeps_another_status_line(agent: Agent, command: str) -> None:
    line = {"statusLine": {"type": "command", "command": command}}
    path = put(agent, raw := json.dumps(line).encode())
    agent.call("install")
    agent.call("uninstall")
    assert path.read_bytes() == raw
