"""Installed into each agent's settings, at work, and out of them again without a trace."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reflector import files
from reflector.hooks.agents import AGENTS
from reflector.hooks.install import EVENTS, HookList, hook_command
from tests.hooks.shapes import REFUSED, SHAPES
from tests.road.agent import Agent

install = HookList(EVENTS).install
SCOPES = ("user", "project", "local")
EVERY_FILE = [(name, scope) for name in AGENTS for scope in AGENTS[name].files]
LISTS = [name for name in AGENTS if isinstance(AGENTS[name].form, HookList)]
MODULES = [name for name in AGENTS if name not in LISTS]
OLD = "/old/venv/bin/python -I -S /old/lib/reflector/hooks/fast.py"
OPUS = b'{\n  "model": "opus"\n}\n'
ROOT = Path(__file__).parents[2]


def file_of(agent: Agent, name: str = "claude", scope: str = "user") -> Path:
    return AGENTS[name].paths(agent.project, {"HOME": str(agent.home)})[scope]  # type: ignore[index]


def put(agent: Agent, content: bytes, name: str = "claude", scope: str = "user", mode: int = 0o644) -> Path:
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
            os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".reflector-backup")


def commands(path: Path, name: str = "claude") -> dict[str, str]:
    """The command of each event of ours in a settings file."""
    return {one.event: one.command for one in AGENTS[name].form.handlers(path.read_text("utf-8-sig"))}


def fire(agent: Agent, path: Path, event: str, **fields: Any) -> tuple[str, str]:
    """Run our hooks of a settings file as the agent does: by a shell, with the payload on stdin."""
    done = subprocess.run(
        ["sh", "-c", commands(path)[event]],
        input=json.dumps({"hook_event_name": event, "cwd": str(agent.project), **fields}),
        env=agent.env(REFLECTOR_NO_SPAWN="1"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    return done.stdout, done.stderr


def notes(agent: Agent, *arguments: str) -> list[str]:
    return agent.call("install", *arguments).err.splitlines()


@pytest.mark.parametrize("shape", ["byte order mark", "CRLF", "empty file", "empty event", "aligned by hand"])
def test_installed_it_works_and_uninstalled_the_file_is_as_it_was(agent: Agent, shape: str) -> None:
    path = put(agent, SHAPES[shape], mode=0o640)
    before = seen(agent.home)
    agent.call("install")
    assert backup_of(path).read_bytes() == SHAPES[shape]
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(backup_of(path).stat().st_mode) == 0o640
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == SHAPES[shape].startswith(b"\xef\xbb\xbf")
    out, err = fire(agent, path, "SessionStart", source="startup")
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in out
    assert err == ""
    agent.call("uninstall")
    assert seen(agent.home) == before


def test_a_new_layout_is_announced_and_shown_and_undone(agent: Agent) -> None:
    path = put(agent, SHAPES["aligned by hand"])
    for words in (["install", "--dry-run"], ["install"]):
        told = agent.call(*words)
        assert f"{path} is reformatted outside the hooks too; --dry-run shows where" in told.err
        assert ('-{ "model"   : "opus"' in told.out) == ("--dry-run" in words)
    assert agent.call("install").err == ""
    agent.call("uninstall")
    assert path.read_bytes() == SHAPES["aligned by hand"]
    put(agent, SHAPES["tabs"])
    assert agent.call("install").err == ""


@pytest.mark.parametrize("shape", ["comment", "not UTF-8", "UTF-16", "a key twice"])
def test_a_file_that_cannot_hold_our_hooks_is_refused_and_untouched(agent: Agent, shape: str) -> None:
    raw, words = REFUSED[shape]
    path = put(agent, raw)
    before = seen(agent.home)
    for command in ("install", "install --dry-run"):
        told = agent.call(*command.split(), code=1).err
        assert f"{path}: " in told
        assert words in told
        assert "Nothing was changed" in told
    assert seen(agent.home) == before


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_reaches_the_playbook_or_the_spool(agent: Agent, event: str) -> None:
    agent.call("install")
    out, err = fire(agent, file_of(agent), event, session_id="s-1")
    assert err == ""
    assert ("[pat-002]" in out, len(agent.deliveries())) == ((True, 0) if event.endswith("Start") else (False, 1))


@pytest.mark.parametrize("command", [hook_command(script="/gone/hooks/__main__.py"), hook_command("/gone/bin/python")])
def test_a_hook_whose_environment_is_gone_says_nothing_that_stops_the_agent(agent: Agent, command: str) -> None:
    out, err = fire(agent, put(agent, install("{}", command.replace("/hooks/", "/reflector/hooks/")).encode()), "Stop")
    assert out == ""
    assert "/gone/" in err


@pytest.mark.parametrize(("name", "scope"), EVERY_FILE)
def test_files_and_folders_that_were_missing_are_created_and_removed_again(
    tmp_path: Path, name: str, scope: str
) -> None:
    agent = Agent(tmp_path / "project", tmp_path / "home")
    agent.project.mkdir()
    agent.home.mkdir()
    assert agent.call("install", "--agent", name, "--scope", scope, "--dry-run").out.startswith("--- /dev/null\n+++ ")
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []
    told = agent.call("install", "--agent", name, "--scope", scope).out
    path = file_of(agent, name, scope)
    assert commands(path, name) == dict.fromkeys(AGENTS[name].events, hook_command())
    assert stat.S_IMODE(path.stat().st_mode) == (0o600 if scope == "user" else 0o644)
    agent_option = "" if name == "claude" else f" --agent {name}"
    assert f"reflector uninstall{agent_option}{'' if scope == 'user' else f' --scope {scope}'}\n" in told
    before = seen(path.parent)
    assert "has the hooks already" in agent.call("install", "--agent", name, "--scope", scope).out
    assert seen(path.parent) == before
    agent.call("uninstall", "--agent", name, "--scope", scope)
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []


def test_a_scope_touches_its_own_file_alone(agent: Agent) -> None:
    paths = {scope: put(agent, OPUS, scope=scope) for scope in SCOPES}
    agent.call("install", "--scope", "local")
    assert [scope for scope, path in paths.items() if path.read_bytes() != OPUS] == ["local"]
    (agent.claude / "reflector.toml").write_text("backned = 1")  # a wrong setting of ours stops neither
    told = agent.call("uninstall")
    assert f"{paths['local']} still runs" in told.err
    assert "has no hook of ours" in told.out


@pytest.mark.parametrize("name", AGENTS)
def test_an_older_installation_is_replaced_and_leaves_no_copy(agent: Agent, name: str) -> None:
    path = put(agent, AGENTS[name].form.install("", OLD).encode(), name)
    agent.call("install", "--agent", name)
    assert set(commands(path, name).values()) == {hook_command()}
    agent.call("uninstall", "--agent", name)
    assert list(agent.home.iterdir()) == []


def test_an_older_installation_is_replaced_and_the_file_from_before_it_comes_back(agent: Agent) -> None:
    original = SHAPES["empty hooks between others"]
    path = put(agent, install(original.decode(), OLD).encode())
    backup_of(path).write_bytes(original)
    agent.call("install")
    agent.call("uninstall")
    assert path.read_bytes() == original
    assert not backup_of(path).exists()


def test_hooks_that_a_person_wrote_by_hand_are_kept_in_the_backup_and_removed(agent: Agent) -> None:
    by_hand = install(OPUS.decode(), "reflector hook").encode()
    path = put(agent, by_hand)
    agent.call("install")
    assert backup_of(path).read_bytes() == by_hand
    agent.call("uninstall")
    assert path.read_bytes() == OPUS


def test_an_edit_since_stays_and_the_backup_is_named(agent: Agent) -> None:
    path = put(agent, b'{\n  "model": "opus",\n  "hooks": {}\n}\n')
    agent.call("install")
    path.write_text(path.read_text().replace('"opus"', '"sonnet"'))
    told = agent.call("uninstall").out
    assert path.read_bytes() == OPUS.replace(b"opus", b"sonnet")
    assert "what was changed since they came stays" in told
    assert str(backup_of(path)) in told


@pytest.mark.parametrize(
    ("early", "late", "left"),
    [
        (b'{"model": "haiku"}', None, None),  # of an earlier installation
        (OPUS, None, None),  # an uninstallation was killed before its last step
        (None, b"{", b"{"),
        (None, b'{"model": 1}', b'{"model": 1}'),
    ],
)
def test_a_backup_that_is_not_of_this_file_is_not_restored(
    agent: Agent, early: bytes | None, late: bytes | None, left: bytes | None
) -> None:
    path = put(agent, OPUS)
    if early:
        backup_of(path).write_bytes(early)
    agent.call("install")
    if late:
        backup_of(path).write_bytes(late)
    agent.call("uninstall")
    assert path.read_bytes() == OPUS
    assert (backup_of(path).read_bytes() if backup_of(path).exists() else None) == left


@pytest.mark.parametrize("target", ["there", "later"])
def test_a_link_stays_one_and_the_file_that_it_leads_to_is_changed(agent: Agent, tmp_path: Path, target: str) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    if target == "there":
        (dotfiles / "claude.json").write_bytes(SHAPES["tabs"])
    path = file_of(agent)
    path.parent.mkdir()
    path.symlink_to("../../dotfiles/claude.json")
    before = seen(tmp_path)
    agent.call("install")
    assert path.is_symlink()
    assert len(commands(dotfiles / "claude.json")) == len(EVENTS)
    assert [entry.name for entry in dotfiles.iterdir()] == ["claude.json"]
    agent.call("uninstall")
    assert seen(tmp_path) == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "file for a folder", "link into a folder that is gone"])
def test_what_is_not_a_file_is_refused(agent: Agent, kind: str) -> None:
    path = file_of(agent)
    if kind == "file for a folder":
        path.parent.write_text("")
    else:
        path.parent.mkdir()
        {
            "folder": path.mkdir,
            "pipe": lambda: os.mkfifo(path),
            "loop": lambda: path.symlink_to(path),
            "link into a folder that is gone": lambda: path.symlink_to(agent.home / "gone" / "settings.json"),
        }[kind]()
    told = agent.call("install", code=1).err
    assert str(agent.home) in told
    assert "Traceback" not in told
    assert len(list(agent.home.rglob("*"))) == (1 if kind == "file for a folder" else 2)


def test_a_full_disk_leaves_the_old_file(agent: Agent) -> None:
    path = put(agent, SHAPES["two spaces, as the agent writes it"])
    before = seen(agent.home)
    # -B: a compiled module that is cut at the limit would break every later start.
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)); import signal; "
    limited += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from reflector.__main__ import main; "
    limited += "sys.argv = ['reflector', 'install']; main()"
    done = subprocess.run([sys.executable, "-I", "-B", "-c", limited], env=agent.env(), capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{path}.reflector-backup: File too large" in done.stderr
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
    agent.call("install")
    agent.call("uninstall")
    for left in path.parent.glob("*.reflector-tmp"):
        left.unlink()
    assert seen(agent.home) == clean


@pytest.mark.parametrize("content", [pytest.param(SHAPES["tabs"], marks=pytest.mark.slow), None])
def test_commands_at_the_same_time_leave_one_whole_file(agent: Agent, content: bytes | None) -> None:
    path = put(agent, content) if content else file_of(agent)
    before = seen(agent.home)
    for command, times in (("install", 4), ("uninstall", 3)):
        processes = [agent.start(command) for _ in range(times)]
        for process in processes:
            _, err = process.communicate(timeout=120)
            assert (process.returncode, err) == (0, "")
        if command == "install":
            assert len(commands(path)) == len(EVENTS)
    assert seen(agent.home) == before


def test_a_write_of_another_program_meanwhile_is_not_lost(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(agent, OPUS)
    edits = iter([None, b'{"model": "sonnet"}', b'{"model": "haiku"}'])  # the first is the look before it writes

    def and_meanwhile(_: HookList, text: str, command: str) -> str:
        if edit := next(edits, None):
            path.write_bytes(edit)
        return install(text, command)

    monkeypatch.setattr(HookList, "install", and_meanwhile)
    agent.call("install")
    assert json.loads(path.read_bytes())["model"] == "haiku"
    assert len(commands(path)) == len(EVENTS)
    assert backup_of(path).read_bytes() == b'{"model": "haiku"}'


def test_a_folder_that_cannot_be_written_is_named(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions do not bind root, so the system refuses here by hand."""
    path = put(agent, b"{}")
    opened = files.system.open

    def refusing(name: str, flags: int, *rest: Any, **more: Any) -> int:
        if flags & files.NEW == files.NEW:
            raise PermissionError(13, "Permission denied", name)
        return int(opened(name, flags, *rest, **more))

    monkeypatch.setattr(files.system, "open", refusing)
    told = agent.call("install", code=1).err
    assert told == f"reflector: {path.parent}: Permission denied; check its permissions\n"


def test_a_dry_run_shows_the_difference_and_changes_nothing(agent: Agent) -> None:
    path = put(agent, OPUS)
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


@pytest.mark.parametrize("name", LISTS)
def test_timeouts_are_in_the_agents_own_unit(agent: Agent, name: str) -> None:
    agent.call("install", "--agent", name)
    hooks = json.loads(file_of(agent, name).read_bytes())["hooks"]
    seconds = {
        event: groups[0]["hooks"][0]["timeout"] / (1000 if name == "gemini" else 1) for event, groups in hooks.items()
    }
    assert seconds == {**dict.fromkeys(seconds, 10), **({"SessionEnd": 3} if name == "codex" else {})}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_somebody_else_is_neither_overwritten_nor_removed(agent: Agent, name: str) -> None:
    put(agent, b"export default () => {}\n", name)
    before = seen(agent.home)
    assert "is not reflector's" in agent.call("install", "--agent", name, code=1).err
    assert "has no hook of ours" in agent.call("uninstall", "--agent", name).out
    assert seen(agent.home) == before


@pytest.mark.parametrize("name", AGENTS)
def test_a_scope_that_an_agent_has_not_is_a_usage_error(agent: Agent, name: str) -> None:
    code = 0 if "local" in AGENTS[name].files else 2
    told = agent.call("install", "--agent", name, "--scope", "local", code=code).err
    assert ("use --scope project" in told) == bool(code)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("claude", {"disableAllHooks": True}),
        ("gemini", {"hooksConfig": {"enabled": False}}),
        ("copilot", {"disableAllHooks": True}),
    ],
)
def test_hooks_that_are_switched_off_are_reported(agent: Agent, name: str, settings: dict[str, Any]) -> None:
    path = put(agent, json.dumps(settings).encode(), name, "project")
    assert any(line.startswith(f"reflector: {path} has ") for line in notes(agent, "--agent", name))


def test_a_plugin_of_ours_is_reported_unless_it_is_disabled(agent: Agent) -> None:
    put(agent, b'{"enabledPlugins": {"reflector@house": true, "other@house": true}}', scope="project")
    assert notes(agent) == [
        "reflector: the plugin reflector@house calls us, too; keep one of both: claude plugin uninstall reflector@house"
    ]
    assert "the plugin reflector@house still calls us" in agent.call("uninstall").err
    put(agent, b"{}", scope="project")
    (agent.home / ".claude/plugins/cache/shop/reflector/0.1.0").mkdir(parents=True)
    assert any("reflector@shop" in line for line in notes(agent))
    put(agent, b'{"enabledPlugins": {"reflector@shop": false}}', scope="local")
    assert notes(agent) == []


def test_another_command_that_calls_us_is_reported_and_the_same_one_is_not(agent: Agent) -> None:
    agent.call("install", "--scope", "local")
    assert notes(agent) == []
    wrapped = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "cd /x && reflector hook"}]}]}}
    path = put(agent, json.dumps(wrapped).encode(), scope="project")
    assert notes(agent) == [f"reflector: {path} also runs cd /x && reflector hook; one of both is enough"]


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "claude"])
def test_two_files_that_call_us_are_reported(agent: Agent, name: str) -> None:
    assert notes(agent, "--agent", name) == []
    told = agent.call("install", "--agent", name, "--scope", "project").err
    assert f"{file_of(agent, name)} also runs" in told
    assert "names your own interpreter" in told


def test_copilot_also_runs_claude_codes_hooks_of_a_project(agent: Agent) -> None:
    agent.call("install", "--scope", "project")
    assert f"{agent.claude / 'settings.json'} also runs" in agent.call("install", "--agent", "copilot").err


def test_uninstalling_from_one_agent_names_the_others(agent: Agent) -> None:
    agent.call("install", "--agent", "codex")
    agent.call("install", "--agent", "pi", "--scope", "project")
    told = agent.call("uninstall").err
    assert f"{file_of(agent, 'codex')} still calls us: reflector uninstall --agent codex\n" in told
    assert "reflector uninstall --agent pi --scope project" in told


def test_an_environment_in_a_cache_is_reported(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    passing = hook_command("/home/me/.cache/uv/archive-v0/x/bin/python")
    monkeypatch.setattr("reflector.hooks.install.hook_command", lambda: passing)
    assert [line for line in notes(agent) if "a cache that is cleared" in line]


@pytest.mark.parametrize(
    ("name", "variable"), [("codex", ""), ("gemini", "GEMINI_SESSION_ID"), ("copilot", "COPILOT_PROJECT_DIR")]
)
def test_each_agent_gets_the_playbook_its_way(agent: Agent, name: str, variable: str) -> None:
    agent.call("install", "--agent", name)
    agent.environ |= {variable: str(agent.project)} if variable else {}
    out, err = fire(agent, file_of(agent, name), "SessionStart", session_id="s-1")
    assert err == ""
    text = out
    if name == "gemini":
        text = json.loads(out)["hookSpecificOutput"]["additionalContext"]
    elif name == "copilot":
        assert list(json.loads(out)) == ["additionalContext"]
        text = json.loads(out)["additionalContext"]
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in text


def test_a_subagent_of_copilot_gets_it_although_its_event_has_no_name(agent: Agent) -> None:
    payload = {"sessionId": "s-1", "cwd": str(agent.project), "agentName": "general-purpose", "agent_id": "a-1"}
    out = subprocess.run(
        ["sh", "-c", hook_command()],
        input=json.dumps(payload),
        env=agent.env(COPILOT_PROJECT_DIR=str(agent.project)),
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    assert "[pat-002]" in json.loads(out)["additionalContext"]
    agent.hook("Stop", session_id="a-1", agent_id="a-1", parent_agent_id="s-1", transcript_path="/t.jsonl")
    assert agent.deliveries() == []


@pytest.mark.parametrize(
    "words", [["--git", "--scope", "project"], ["--git", "--mirror", "AGENTS.md"], ["--agent", "pi", "--mirror", "x"]]
)
def test_the_project_and_an_agents_settings_are_set_up_one_by_one(agent: Agent, words: list[str]) -> None:
    assert "reflector" in agent.call("install", *words, code=2).err


@pytest.mark.parametrize("name", AGENTS)
def test_the_page_of_agents_and_the_readme_name_each_with_its_files(name: str) -> None:
    agent = AGENTS[name]
    (row,) = [
        line for line in (ROOT / "docs/agents.md").read_text("utf-8").splitlines() if line.startswith(f"| `{name}` |")
    ]
    assert f"${agent.home[0]}" in row
    assert agent.files["user"] in row
    assert f"`{agent.files['project']}`" in row
    assert agent.title in (ROOT / "README.md").read_text("utf-8")
