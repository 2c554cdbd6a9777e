"""Installed into the agent's settings, at work, and out of them again without a trace."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reflector import folders
from reflector.hooks.install import EVENTS, handlers, hook_command, install
from tests.hooks.shapes import REFUSED, SHAPES
from tests.road.agent import Agent

SCOPES = ["user", "project", "local"]
OLD = "/old/venv/bin/python -I -S /old/lib/reflector/hooks/fast.py"


def settings_of(agent: Agent, scope: str = "user") -> Path:
    if scope == "user":
        return agent.home / ".claude" / "settings.json"
    return agent.claude / ("settings.json" if scope == "project" else "settings.local.json")


def put(agent: Agent, content: bytes, scope: str = "user", mode: int = 0o644) -> Path:
    path = settings_of(agent, scope)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder: where, its mode and content; a link as what it points to."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".reflector-backup")


def fire(agent: Agent, path: Path, event: str, **fields: Any) -> tuple[str, str]:
    """Run the hooks of ours in a settings file as the agent does: by a shell, with the payload on stdin."""
    told = ("", "")
    for handler in handlers(path.read_text("utf-8-sig")):
        if handler.event == event:
            done = subprocess.run(
                ["sh", "-c", handler.command],
                input=json.dumps({"hook_event_name": event, "cwd": str(agent.project), **fields}),
                env=agent.env(REFLECTOR_NO_SPAWN="1"),
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0
            told = (told[0] + done.stdout, told[1] + done.stderr)
    return told


@pytest.mark.parametrize("name", SHAPES)
def test_installed_it_works_and_uninstalled_the_file_is_as_it_was(agent: Agent, name: str) -> None:
    path = put(agent, SHAPES[name], mode=0o640)
    before = seen(agent.home)
    agent.call("install")
    assert backup_of(path).read_bytes() == SHAPES[name]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(backup_of(path).stat().st_mode) == 0o640
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == SHAPES[name].startswith(b"\xef\xbb\xbf")
    assert sorted(handler.event for handler in handlers(path.read_text("utf-8-sig"))) == sorted(EVENTS)
    out, err = fire(agent, path, "SessionStart", source="startup")
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in out
    assert err == ""
    agent.call("uninstall")
    assert seen(agent.home) == before


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("command", ["install", "install --dry-run"])
def test_a_file_that_is_no_settings_is_refused_with_the_place_and_untouched(
    agent: Agent, name: str, command: str
) -> None:
    raw, line, column, words = REFUSED[name]
    path = put(agent, raw)
    before = seen(agent.home)
    told = agent.call(*command.split(), code=1).err
    assert str(path) in told
    assert words in told
    assert (f"line {line}, column {column}: " if line else "line ") in told
    assert "Nothing was changed" in told
    assert seen(agent.home) == before


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_reaches_the_playbook_or_the_spool(agent: Agent, event: str) -> None:
    agent.call("install")
    out, err = fire(agent, settings_of(agent), event, session_id="s-1")
    assert err == ""
    if event.endswith("Start"):
        assert "[pat-002]" in out
    else:
        assert out == ""
        assert len(agent.deliveries()) == 1


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_whose_environment_is_gone_says_nothing_that_stops_the_agent(agent: Agent, event: str) -> None:
    gone_script = hook_command(script="/gone/reflector/hooks/fast.py")
    gone_python = hook_command("/gone/bin/python")
    for command in (gone_script, gone_python):
        path = put(agent, install("{}", command).encode())
        out, err = fire(agent, path, event)
        assert out == ""
        assert "/gone/" in err


@pytest.mark.parametrize("scope", SCOPES)
def test_files_and_folders_that_were_not_there_are_made_and_removed_again(tmp_path: Path, scope: str) -> None:
    agent = Agent(tmp_path / "project", tmp_path / "home")
    agent.project.mkdir()
    agent.home.mkdir()
    agent.call("install", f"--{scope}")
    path = settings_of(agent, scope)
    assert len(handlers(path.read_text())) == len(EVENTS)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == (0o600 if scope == "user" else 0o666 & ~mask)
    agent.call("uninstall", f"--{scope}")
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_touches_its_own_file_alone(agent: Agent, scope: str) -> None:
    paths = {each: put(agent, b'{"model": "opus"}', each) for each in SCOPES}
    agent.call("install", f"--{scope}")
    changed = [each for each, path in paths.items() if path.read_bytes() != b'{"model": "opus"}']
    assert changed == [scope]
    told = agent.call("uninstall", *(["--user"] if scope == "local" else ["--local"]))
    assert f"{paths[scope]} still runs" in told.err
    assert "has no hook of ours" in told.out


def test_the_folder_that_the_agent_is_told_to_use_is_used(agent: Agent, tmp_path: Path) -> None:
    agent.environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "elsewhere" / "config")
    agent.call("install")
    assert (tmp_path / "elsewhere/config/settings.json").exists()
    assert list(agent.home.iterdir()) == []


def test_installing_again_changes_nothing(agent: Agent) -> None:
    put(agent, SHAPES["four spaces"])
    agent.call("install")
    before = seen(agent.home)
    assert "has the hooks already" in agent.call("install").out
    assert seen(agent.home) == before


def test_an_older_installation_is_replaced_and_the_file_from_before_it_comes_back(agent: Agent) -> None:
    original = SHAPES["empty hooks between others"]
    path = put(agent, install(original.decode(), OLD).encode())
    backup_of(path).write_bytes(original)
    agent.call("install")
    assert {handler.command for handler in handlers(path.read_text())} == {hook_command()}
    agent.call("uninstall")
    assert path.read_bytes() == original
    assert not backup_of(path).exists()


def test_hooks_that_a_person_wrote_by_hand_are_replaced_kept_in_the_backup_and_taken_out(agent: Agent) -> None:
    by_hand = {"type": "command", "command": "reflector hook", "timeout": 10}
    raw = json.dumps({"model": "opus", "hooks": {event: [{"hooks": [by_hand]}] for event in EVENTS}}, indent=2).encode()
    path = put(agent, raw)
    agent.call("install")
    assert backup_of(path).read_bytes() == raw
    agent.call("uninstall")
    assert path.read_bytes() == json.dumps({"model": "opus"}, indent=2).encode()


def test_what_was_edited_since_stays(agent: Agent) -> None:
    path = put(agent, b'{\n  "model": "opus",\n  "hooks": {}\n}\n')
    agent.call("install")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    told = agent.call("uninstall").out
    assert path.read_bytes() == b'{\n  "model": "sonnet"\n}\n'
    assert "what was changed since they came stays" in told
    assert str(backup_of(path)) in told


def test_a_file_that_the_agent_wrote_anew_is_without_us_again(agent: Agent) -> None:
    path = put(agent, SHAPES["tabs"])
    agent.call("install")
    settings = json.loads(path.read_bytes())
    settings["permissions"]["allow"].append("Bash(make:*)")
    path.write_text(json.dumps(settings, indent=2))
    agent.call("uninstall")
    before = json.loads(SHAPES["tabs"])
    before["permissions"]["allow"].append("Bash(make:*)")
    assert path.read_text() == json.dumps(before, indent=2)


def test_a_backup_from_another_life_is_not_put_back(agent: Agent) -> None:
    path = put(agent, b'{"model": "opus"}')
    backup_of(path).write_bytes(b'{"model": "haiku"}')
    agent.call("install")
    assert backup_of(path).read_bytes() == b'{"model": "opus"}'
    agent.call("uninstall")
    assert path.read_bytes() == b'{"model": "opus"}'


def test_a_backup_that_somebody_spoilt_is_left_alone(agent: Agent) -> None:
    path = put(agent, b'{"model": "opus"}')
    agent.call("install")
    backup_of(path).write_bytes(b"{")
    agent.call("uninstall")
    assert path.read_bytes() == b'{"model": "opus"}'
    assert backup_of(path).read_bytes() == b"{"


def test_a_backup_of_what_is_there_again_is_removed(agent: Agent) -> None:
    path = put(agent, b'{"model": "opus"}')
    backup_of(path).write_bytes(b'{"model": "opus"}')  # an uninstallation was killed before its last step
    agent.call("uninstall")
    assert [file.name for file in path.parent.iterdir()] == ["settings.json"]


def test_a_file_that_was_emptied_by_a_person_stays_a_file(agent: Agent) -> None:
    path = put(agent, b'{"model": "opus"}')
    agent.call("install")
    settings = json.loads(path.read_bytes())
    del settings["model"]
    path.write_text(json.dumps(settings))
    agent.call("uninstall")
    assert path.read_bytes() == b"{}"


def test_nothing_to_uninstall_is_no_error_and_leaves_nothing(agent: Agent) -> None:
    assert "has no hook of ours" in agent.call("uninstall").out
    assert list(agent.home.iterdir()) == []
    (agent.home / ".claude").mkdir()
    agent.call("uninstall")
    assert list(agent.home.iterdir()) == [agent.home / ".claude"]
    path = put(agent, SHAPES["hooks of every type"])
    assert "has no hook of ours" in agent.call("uninstall").out
    assert path.read_bytes() == SHAPES["hooks of every type"]


def test_a_symlink_stays_one_and_its_target_is_changed(agent: Agent, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_bytes(SHAPES["tabs"])
    path = settings_of(agent)
    path.parent.mkdir()
    path.symlink_to("../../dotfiles/claude.json")
    before = seen(tmp_path)
    agent.call("install")
    assert path.is_symlink()
    assert len(handlers((dotfiles / "claude.json").read_text())) == len(EVENTS)
    assert [entry.name for entry in dotfiles.iterdir()] == ["claude.json"]
    agent.call("uninstall")
    assert seen(tmp_path) == before


def test_a_link_into_a_folder_that_is_gone_is_an_error_that_names_it(agent: Agent, tmp_path: Path) -> None:
    path = settings_of(agent)
    path.parent.mkdir()
    path.symlink_to(tmp_path / "gone" / "settings.json")
    assert str(tmp_path / "gone") in agent.call("install", code=1).err
    assert "has no hook of ours" in agent.call("uninstall").out


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(agent: Agent, tmp_path: Path) -> None:
    path = settings_of(agent)
    path.parent.mkdir()
    path.symlink_to(tmp_path / "later.json")
    agent.call("install")
    assert len(handlers((tmp_path / "later.json").read_text())) == len(EVENTS)
    agent.call("uninstall")
    assert path.is_symlink()
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o400, 0o444, 0o600, 0o664, 0o755])
def test_the_mode_stays(agent: Agent, mode: int) -> None:
    path = put(agent, b'{"hooks": {}}', mode=mode)
    agent.call("install")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    agent.call("uninstall")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b'{"hooks": {}}'


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "file for a folder"])
def test_what_is_no_file_is_refused(agent: Agent, kind: str) -> None:
    path = settings_of(agent)
    if kind == "file for a folder":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(path)}[kind]()
    for command in ("install", "uninstall", "install --dry-run"):
        told = agent.call(*command.split(), code=1).err
        assert str(path.parent) in told
        assert "Traceback" not in told
    assert len(list(agent.home.rglob("*"))) == (1 if kind == "file for a folder" else 2)


def test_utf_16_is_told_apart(agent: Agent) -> None:
    put(agent, "{}".encode("utf-16"))
    assert "UTF-16, not UTF-8" in agent.call("install", code=1).err


def test_a_full_disk_leaves_the_old_file(agent: Agent) -> None:
    raw = SHAPES["two spaces, as the agent writes it"]
    path = put(agent, raw)
    before = seen(agent.home)
    # -B: a compiled module that is cut at the limit would break every later start.
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); import signal; "
    limited += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from reflector.__main__ import main; "
    limited += "sys.argv = ['reflector', 'install']; main()"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", limited], env=agent.env(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(path) in done.stderr
    assert "File too large" in done.stderr
    assert seen(agent.home) == before


def killed_at(agent: Agent, step: int, command: str) -> bool:
    """Run a command that is killed at its n-th file to open, rename, remove or give a mode; whether it was."""
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, _: object) -> None:
            nonlocal left
            if event in ("open", "os.rename", "os.remove", "os.chmod", "os.mkdir"):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            agent.call(command)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_killed_at_any_step_the_file_is_the_old_or_the_new_one_and_the_next_command_goes_on(
    agent: Agent, command: str
) -> None:
    without = SHAPES["empty hooks between others"]
    path = put(agent, without)
    clean = seen(agent.home)
    agent.call("install")
    ends = {path.read_bytes(), without}
    for step in range(1, 200):
        agent.call("install" if command == "uninstall" else "uninstall")
        killed = killed_at(agent, step, command)
        assert path.read_bytes() in ends
        if not killed:
            break
    assert 3 < step < 199
    for left in path.parent.glob("*.reflector-tmp"):
        os.utime(left, (0, 0))
    agent.call("install")
    agent.call("uninstall")
    assert seen(agent.home) == clean


def test_a_dry_run_shows_the_difference_and_changes_nothing(agent: Agent) -> None:
    path = put(agent, b'{\n  "model": "opus"\n}\n')
    before = seen(agent.home)
    told = agent.call("install", "--dry-run").out.splitlines()
    assert told[:2] == [f"--- {path}", f"+++ {path}"]
    assert '-  "model": "opus"' in told
    assert '+    "SessionEnd": [' in told
    assert seen(agent.home) == before
    agent.call("install")
    back = agent.call("uninstall", "--dry-run").out.splitlines()
    assert '-    "SessionEnd": [' in back
    assert '+  "model": "opus"' in back
    assert "SessionEnd" in path.read_text()
    assert agent.call("install", "--dry-run").out == ""


def test_a_dry_run_where_nothing_is_makes_nothing(agent: Agent) -> None:
    assert agent.call("install", "--dry-run").out.startswith("--- /dev/null\n+++ ")
    assert list(agent.home.iterdir()) == []


def test_two_scopes_at_once_are_a_usage_error(agent: Agent) -> None:
    assert "two files" in agent.call("install", "--user", "--local", code=2).err


def test_a_wrong_setting_of_ours_does_not_keep_anyone_from_uninstalling(agent: Agent) -> None:
    (agent.claude / "reflector.toml").write_text("backned = 1")
    agent.call("install", "--project")
    agent.call("uninstall", "--project")
    assert not settings_of(agent, "project").exists()


@pytest.mark.parametrize("scope", SCOPES)
def test_hooks_that_are_switched_off_are_told(agent: Agent, scope: str) -> None:
    path = put(agent, b'{"disableAllHooks": true}', scope)
    assert f'{path} has "disableAllHooks": true' in agent.call("install").err


def warnings(agent: Agent) -> Iterator[str]:
    return (line for line in agent.call("install").err.splitlines())


def test_an_enabled_plugin_of_ours_is_told(agent: Agent) -> None:
    put(agent, b'{"enabledPlugins": {"reflector@house": true, "other@house": true}}', "project")
    assert [line for line in warnings(agent) if "plugin" in line] == [
        "reflector: the plugin reflector@house calls us, too; keep one of both: claude plugin uninstall reflector@house"
    ]
    assert "the plugin reflector@house still calls us" in agent.call("uninstall").err


def test_a_plugin_in_the_agents_cache_is_told_unless_it_is_disabled(agent: Agent) -> None:
    (agent.home / ".claude/plugins/cache/house/reflector/0.1.0").mkdir(parents=True)
    assert any("reflector@house" in line for line in warnings(agent))
    put(agent, b'{"enabledPlugins": {"reflector@house": false}}', "local")
    assert list(warnings(agent)) == []


def test_another_command_that_calls_us_is_told_and_the_same_one_is_not(agent: Agent) -> None:
    agent.call("install", "--local")
    assert list(warnings(agent)) == []
    other = install('{"x": 1}', OLD)
    path = put(agent, other.encode(), "project")
    assert list(warnings(agent)) == [f"reflector: {path} also runs {OLD}; one of both is enough"]


def test_an_environment_that_a_cache_throws_away_is_told(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = hook_command("/home/me/.cache/uv/archive-v0/x/bin/python")
    monkeypatch.setattr("reflector.hooks.install.hook_command", lambda: passing)
    assert [line for line in warnings(agent) if "a cache that is cleared" in line]


def test_a_shared_settings_file_is_said_to_name_an_interpreter_of_ones_own(agent: Agent) -> None:
    assert "names your own interpreter" in agent.call("install", "--project").err


def test_a_command_around_ours_stays_and_is_told(agent: Agent) -> None:
    wrapped = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "cd /x && reflector hook"}]}]}}
    path = put(agent, json.dumps(wrapped).encode())
    assert list(warnings(agent)) == [f"reflector: {path} also runs cd /x && reflector hook; one of both is enough"]
    agent.call("uninstall")
    assert json.loads(path.read_bytes()) == wrapped


@pytest.mark.parametrize(
    "shape",
    [*(pytest.param(n, marks=pytest.mark.slow) for n in ("two spaces, as the agent writes it", "empty file")), None],
)
def test_commands_at_the_same_time_leave_one_whole_file(agent: Agent, shape: str | None) -> None:
    path = put(agent, SHAPES[shape]) if shape else settings_of(agent)
    before = seen(agent.home)
    processes = [agent.start("install") for _ in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    assert len(handlers(path.read_text())) == len(EVENTS)
    processes = [agent.start("uninstall") for _ in range(3)]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
    assert seen(agent.home) == before


def test_what_another_program_writes_meanwhile_is_not_lost(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(agent, b'{"model": "opus"}')
    edits = iter([b'{"model": "sonnet"}', b'{"model": "haiku"}'])
    whole = install

    def and_meanwhile(text: str, command: str, events: dict[str, int]) -> str:
        if edit := next(edits, None):
            path.write_bytes(edit)
        return whole(text, command, events)

    monkeypatch.setattr("reflector.hooks.install.install", and_meanwhile)
    agent.call("install")
    assert json.loads(path.read_bytes())["model"] == "haiku"
    assert len(handlers(path.read_text())) == len(EVENTS)
    assert backup_of(path).read_bytes() == b'{"model": "haiku"}'


def test_a_folder_that_cannot_be_written_is_named_and_no_file_that_is_not_there(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not bind root, so the system refuses here by hand."""
    path = agent.home / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    opened = folders.system.open

    def refusing(name: str, flags: int, *rest: Any, **more: Any) -> int:
        if flags & folders.NEW == folders.NEW:
            raise PermissionError(13, "Permission denied", name)
        return int(opened(name, flags, *rest, **more))

    monkeypatch.setattr(folders.system, "open", refusing)
    told = agent.call("install", code=1).err
    assert told == f"reflector: {path.parent}: Permission denied; check its permissions\n"
