"""Every agent of `--agent`: installed beside what others wrote, told its way, and out again without a trace."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reflector.hooks.agents import AGENTS, HookList
from reflector.hooks.install import hook_command
from tests.cli.test_install import backup_of, fire, seen
from tests.hooks.shapes import SHAPES
from tests.road.agent import Agent

OTHERS = [name for name in AGENTS if name != "claude"]
LISTS = [name for name in OTHERS if isinstance(AGENTS[name].form, HookList)]
MODULES = [name for name in OTHERS if name not in LISTS]
EVERY_FILE = [(name, scope) for name in OTHERS for scope in AGENTS[name].files]
OLD = "/old/venv/bin/python -I -S /old/lib/reflector/hooks/fast.py"


def file_of(agent: Agent, name: str, scope: str = "user") -> Path:
    return AGENTS[name].paths(agent.project, {"HOME": str(agent.home)})[scope]  # type: ignore[index]


def put(agent: Agent, name: str, content: bytes, scope: str = "user") -> Path:
    path = file_of(agent, name, scope)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def checks(agent: Agent) -> list[dict[str, Any]]:
    return [check for check in agent.json("doctor", code=1) if check["name"] == "hooks"]


@pytest.mark.parametrize(("name", "scope"), EVERY_FILE)
def test_files_and_folders_that_were_not_there_are_made_and_removed_again(
    tmp_path: Path, name: str, scope: str
) -> None:
    agent = Agent(tmp_path / "project", tmp_path / "home")
    agent.project.mkdir()
    agent.home.mkdir()
    told = agent.call("install", "--agent", name, f"--{scope}").out
    path = file_of(agent, name, scope)
    found = AGENTS[name].form.handlers(path.read_text())
    assert {handler.event: handler.command for handler in found} == dict.fromkeys(AGENTS[name].events, hook_command())
    assert f"reflector uninstall --agent {name}" + (f" --{scope}" if scope != "user" else "") in told
    assert "has the hooks already" in agent.call("install", "--agent", name, f"--{scope}").out
    agent.call("uninstall", "--agent", name, f"--{scope}")
    assert list(agent.home.iterdir()) == list(agent.project.iterdir()) == []


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("shape", ["hooks of every type", "tabs", "empty hooks between others"])
def test_what_others_wrote_stays_and_comes_back_to_the_byte(agent: Agent, name: str, shape: str) -> None:
    path = put(agent, name, SHAPES[shape])
    before = seen(agent.home)
    assert str(path) in agent.call("install", "--agent", name, "--dry-run").out
    assert seen(agent.home) == before
    agent.call("install", "--agent", name)
    assert backup_of(path).read_bytes() == SHAPES[shape]
    agent.call("uninstall", "--agent", name)
    assert seen(agent.home) == before


@pytest.mark.parametrize("name", LISTS)
def test_timeouts_are_in_the_agents_own_unit(agent: Agent, name: str) -> None:
    agent.call("install", "--agent", name)
    found = AGENTS[name].form.handlers(file_of(agent, name).read_text())
    seconds = {handler.event: (handler.timeout or 0) / (1000 if name == "gemini" else 1) for handler in found}
    assert seconds == {**dict.fromkeys(seconds, 10), **({"SessionEnd": 3} if name == "codex" else {})}


@pytest.mark.parametrize("name", LISTS)
def test_a_file_that_cannot_be_read_is_refused_with_the_place(agent: Agent, name: str) -> None:
    path = put(agent, name, b'{\n  "hooks": [,]\n}')
    told = agent.call("install", "--agent", name, code=1).err
    assert f"{path}, line 2, column" in told
    assert path.read_bytes() == b'{\n  "hooks": [,]\n}'


@pytest.mark.parametrize("name", MODULES)
def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(agent: Agent, name: str) -> None:
    path = put(agent, name, b"export default () => {}\n")
    before = seen(agent.home)
    assert "is not reflector's" in agent.call("install", "--agent", name, code=1).err
    assert "has no hook of ours" in agent.call("uninstall", "--agent", name).out
    assert seen(agent.home) == before
    assert path.exists()


@pytest.mark.parametrize("name", OTHERS)
def test_an_older_installation_is_replaced_and_leaves_no_copy(agent: Agent, name: str) -> None:
    path = put(agent, name, AGENTS[name].form.install("", OLD).encode())
    agent.call("install", "--agent", name)
    assert {handler.command for handler in AGENTS[name].form.handlers(path.read_text())} == {hook_command()}
    agent.call("uninstall", "--agent", name)
    assert list(agent.home.iterdir()) == []


@pytest.mark.parametrize("name", OTHERS)
def test_a_scope_that_an_agent_has_not_is_a_usage_error(agent: Agent, name: str) -> None:
    code = 0 if "local" in AGENTS[name].files else 2
    assert ("use --user or --project" in agent.call("install", "--agent", name, "--local", code=code).err) == bool(code)


@pytest.mark.parametrize("name", OTHERS)
def test_two_files_that_call_us_are_told(agent: Agent, name: str) -> None:
    assert agent.call("install", "--agent", name).err == ""
    told = agent.call("install", "--agent", name, "--project").err
    assert f"{file_of(agent, name)} also runs" in told
    assert any("more than once" in check["text"] for check in checks_of_all(agent))


def checks_of_all(agent: Agent) -> list[dict[str, Any]]:
    return [check for check in agent.json("doctor") if check["name"] == "hooks"]


def test_copilot_also_runs_claude_codes_hooks_of_a_project(agent: Agent) -> None:
    agent.call("install", "--project")
    told = agent.call("install", "--agent", "copilot").err
    assert f"{agent.claude / 'settings.json'} also runs" in told


def test_uninstalling_from_one_agent_names_the_others(agent: Agent) -> None:
    agent.call("install")
    agent.call("install", "--agent", "codex")
    agent.call("install", "--agent", "pi", "--project")
    told = agent.call("uninstall").err
    assert f"{file_of(agent, 'codex')} still calls us: reflector uninstall --agent codex\n" in told
    assert "reflector uninstall --agent pi --project" in told


@pytest.mark.parametrize("name", OTHERS)
def test_the_doctor_names_the_agents_file_and_what_mends_it(agent: Agent, name: str) -> None:
    agent.call("install", "--agent", name)
    path = file_of(agent, name)
    assert [check["text"] for check in checks_of_all(agent) if check["state"] == "ok"] == [
        f"{path}: {', '.join(AGENTS[name].events)}"
    ]
    path.write_text(AGENTS[name].form.install("", "/gone/bin/python /gone/reflector/hooks/__main__.py"))
    (gone,) = [check for check in checks(agent) if "is gone" in check["text"]]
    assert gone["mend"] == f"reflector install --agent {name}"
    agent.call("doctor", "--fix")
    assert {handler.command for handler in AGENTS[name].form.handlers(path.read_text())} == {hook_command()}


def test_the_doctor_says_that_codex_has_not_been_told_to_trust_the_hooks(agent: Agent) -> None:
    agent.call("install", "--agent", "codex")
    assert any("trust" in check["text"] for check in checks_of_all(agent))
    state = f'[hooks.state."{file_of(agent, "codex")}:stop:0:0"]\ntrusted_hash = "sha256:0"\n'
    (agent.home / ".codex/config.toml").write_text(state)
    assert not any("trust" in check["text"] for check in checks_of_all(agent))


@pytest.mark.parametrize(
    ("name", "settings"), [("gemini", {"hooksConfig": {"enabled": False}}), ("copilot", {"disableAllHooks": True})]
)
def test_hooks_that_are_switched_off_are_told(agent: Agent, name: str, settings: dict[str, Any]) -> None:
    path = put(agent, name, json.dumps(settings).encode())
    assert f"{path} has " in agent.call("install", "--agent", name).err
    assert any(check["mend"] == "take it out" for check in checks(agent))


@pytest.mark.parametrize(
    ("name", "said"), [("codex", ""), ("gemini", "GEMINI_SESSION_ID"), ("copilot", "COPILOT_PROJECT_DIR")]
)
def test_each_agent_is_told_the_playbook_its_way(agent: Agent, name: str, said: str) -> None:
    agent.call("install", "--agent", name)
    agent.environ |= {said: str(agent.project)} if said else {}
    out, err = fire(agent, file_of(agent, name), "SessionStart", session_id="s-1")
    assert err == ""
    if name == "codex":
        text = out
    elif name == "gemini":
        text = json.loads(out)["hookSpecificOutput"]["additionalContext"]
    else:
        assert list(json.loads(out)) == ["additionalContext"]
        text = json.loads(out)["additionalContext"]
    assert "[pat-002] helpful=3 harmful=1 :: Keep functions small." in text


def test_a_subagent_of_copilot_is_told_although_its_event_has_no_name(agent: Agent) -> None:
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


def test_a_turn_of_copilots_subagent_waits_for_nothing(agent: Agent) -> None:
    agent.hook("Stop", session_id="a-1", agent_id="a-1", parent_agent_id="s-1", transcript_path="/t.jsonl")
    assert agent.deliveries() == []


ROOT = Path(__file__).parents[2]


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
