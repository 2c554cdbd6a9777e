"""The doctor: what is in order is said, and what is not is said with what mends it."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.cli.doctor import report
from reflector.config import Config
from reflector.hooks.agents import CLAUDE
from reflector.hooks.install import HookList
from reflector.hooks.reach import Check
from reflector.project import Project
from tests.building import git
from tests.road.agent import BULLETS, Agent

MODEL = {"REFLECTOR_BACKEND": "anthropic", "ANTHROPIC_API_KEY": "sk-ant-secret-of-mine"}


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """A project at work: installed, with a session that was started, ended and judged."""
    agent.call("install")
    agent.call("drain")
    agent.hook("SessionStart")
    agent.ended()
    agent.call("drain")
    return agent


def settings(agent: Agent) -> Path:
    return agent.home / ".claude" / "settings.json"


def found(agent: Agent, name: str, *, code: int | None = None) -> list[dict[str, Any]]:
    return [check for check in agent.json("doctor", code=code) if check["name"] == name]


def troubles(agent: Agent, *, code: int = 0) -> dict[str, str]:
    return {
        check["name"]: check["mend"]
        for check in agent.json("doctor", code=code)
        if check["state"] != "ok"
    }


def test_sound_project_has_no_troubles_to_fix(agent: Agent) -> None:
    names = {"python", "sqlite", "ledger", "triggers", "disk", "hooks", "queue", "backend"}
    assert names <= {check["name"] for check in agent.json("doctor")}
    assert troubles(agent) == {}
    told = agent.call("doctor").out
    assert ("error" in told, "→" in told) == (False, False)
    before = {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()}
    assert agent.call("doctor", "--fix").err == "--fix found nothing to repair\n"
    assert {
        path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()
    } == before


def test_looking_changes_nothing(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    assert [one["mend"] for one in agent.json("doctor", code=1) if one["state"] == "error"] == [
        "reflector install"
    ]
    assert list(agent.project.iterdir()) == []


def _lose_the_program(agent: Agent) -> None:
    command = json.loads(settings(agent).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    settings(agent).write_text(
        settings(agent).read_text().replace(command.split()[0], "/gone/bin/python")
    )


def _edit(path: Path, *lost: str, **said: Any) -> None:
    """Take events out of the hooks of a settings file, and set keys of it."""
    document = json.loads(path.read_text()) | said
    for event in lost:
        del document["hooks"][event]
    path.write_text(json.dumps(document))


def test_each_trouble_is_named_with_its_way_out(agent: Agent) -> None:
    agent.hook("SessionEnd", session_id="s-2", transcript_path=str(agent.home))
    agent.call("drain", code=1)
    agent.call("install", "--agent", "codex")
    agent.call("install", "--scope", "local")
    _edit(agent.claude / "settings.local.json", disableAllHooks=True)
    _edit(settings(agent), "PreCompact")
    _lose_the_program(agent)
    (agent.claude / "settings.json").write_text('{"hooks": [')
    (agent.claude / "reflector.toml").write_text('judgement_weights = "w.json"\n')
    (agent.state / "prompts").mkdir()
    (agent.state / "prompts" / "reflector.txt").write_text("{nothing}")
    (agent.state / "fired" / "SessionEnd").unlink()
    agent.state.chmod(0o755)
    agent.playbook.unlink()
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    with closing(sqlite3.connect(agent.ledger, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER event_no_delete")
    checks = agent.json("doctor", code=1)
    for name, state, text, mend in (
        ("triggers", "error", "event_no_delete", "reflector rebuild --fix"),
        ("permissions", "warning", "other users of this machine can read", "chmod"),
        ("hooks", "error", "/gone/bin/python no longer exists", "reflector install"),
        ("hooks", "warning", "the hooks for PreCompact are missing", "reflector install"),
        ("hooks", "error", "settings.json: line 1, column", "correct the file"),
        ("hooks", "error", '"disableAllHooks": true', "remove this setting"),
        ("hooks", "warning", "are installed in 2 places", ""),
        ("hooks", "warning", "has not recorded that you trust", "start codex"),
        ("fired SessionEnd", "warning", "never in this project", "start a session"),
        ("queue", "warning", "could not record 1 hook event", "reflector status"),
        ("backend", "error", "", "ANTHROPIC_API_KEY"),
        ("prompt", "error", "", "correct the file"),
        (
            "settings",
            "warning",
            "judgement_weights is no longer a setting",
            "remove judgement_weights",
        ),
        (
            "playbook",
            "warning",
            "is missing",
            "write the file again from the ledger with `reflector reflect`",
        ),
    ):
        named = [one for one in checks if (one["name"], one["state"]) == (name, state)]
        assert any(text in one["text"] and mend in one["mend"] for one in named), (text, named)


def test_repair_command_quotes_a_path_with_blanks(tmp_path: Path) -> None:
    agent, gone = Agent.bare(tmp_path / "my work"), Agent.bare(tmp_path / "old work")
    gone.home = agent.home
    for one in (gone, agent):
        one.call("add", "pat", "Read the log first.")
    gone.project.rename(tmp_path / "away")
    agent.state.chmod(0o755)
    mends = {check["name"]: check["mend"] for check in agent.json("doctor", code=None)}
    assert mends["copy"] == f"reflector ledger forget '{gone.project}'"
    assert mends["permissions"] == f"chmod -R go= '{agent.state}'"


def test_linked_playbook_is_one_check(agent: Agent, tmp_path: Path) -> None:
    agent.playbook.rename(tmp_path / "playbook.json")
    agent.playbook.symlink_to(tmp_path / "playbook.json")
    (check,) = found(agent, "files", code=1)
    assert check["text"] == f"{agent.playbook}: is a symbolic link, or not a regular file"
    assert check["mend"] == "replace the link with a copy of the file, or remove the link"


def test_refused_entry_is_named_without_its_secret(
    agent: Agent,
) -> None:
    secret = {"name": "ctx-001", "text": f"Push with ghp_{'a1B2' * 9}.", "helpful": 0, "harmful": 0}
    agent.write_playbook({**BULLETS, "PROJECT CONTEXT": [secret]})
    told = agent.call("doctor", code=1).out
    assert "bullet ctx-001: the text seems to contain a secret" in told
    assert "a1B2" not in told
    agent.playbook.write_text('{"bad"')
    assert ("line 1, column 7: is not JSON: Expecting ':' delimiter") in agent.call(
        "doctor", code=1
    ).out


def test_trusted_codex_hooks_are_no_trouble(
    agent: Agent,
) -> None:
    agent.call("install", "--agent", "codex")
    noted = f'[hooks.state."{agent.home}/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:0"\n'
    (agent.home / ".codex/config.toml").write_text(noted)
    agent.environ |= MODEL
    assert troubles(agent) == {}
    assert "secret" not in agent.call("doctor").out + agent.call("doctor", "--json").out


def _mended(agent: Agent, told: str) -> None:
    """What `doctor` says that --fix does, --fix does and says, and nothing is left to mend."""
    fixes = {
        check["name"]: check["fix"] for check in agent.json("doctor", code=None) if check["fix"]
    }
    assert told in fixes.values()
    said = agent.call("doctor", "--fix", code=None).err
    assert {f"{name}: {fix}" for name, fix in fixes.items()} <= set(said.splitlines())
    assert [check for check in agent.json("doctor", code=None) if check["fix"]] == []


@pytest.mark.parametrize("name", ["ledger.db.lock", "drain.lock"])
def test_lock_that_is_a_folder_is_named(agent: Agent, name: str) -> None:
    agent.ended(drain=True)
    lock = agent.state / name
    lock.unlink()
    lock.mkdir()
    assert f"{lock} is not a file" in " ".join(agent.call("doctor", code=1).out.split())


def test_fix_takes_rights_from_others_without_following_links(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("a person's")
    outside.chmod(0o644)
    (agent.state / "link").symlink_to(outside)
    agent.state.chmod(0o755)
    agent.ledger.chmod(0o644)
    _mended(agent, "makes the paths and their contents private to you")
    assert [
        path
        for path in agent.state.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ] == []
    assert outside.stat().st_mode & 0o777 == 0o644
    assert agent.playbook.stat().st_mode & 0o044


def test_fix_renews_our_hooks_and_leaves_everything_else(agent: Agent) -> None:
    whole = json.loads(settings(agent).read_text())
    whole["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    settings(agent).write_text(json.dumps(whole, indent=3))
    _lose_the_program(agent)
    _edit(settings(agent), "PreCompact")
    _mended(agent, f"writes the hooks of this installation into {settings(agent)}")
    assert json.loads(settings(agent).read_text()) == whole
    assert troubles(agent) == {}


def test_shared_or_foreign_hooks_are_not_fixed(agent: Agent) -> None:
    agent.call("uninstall")
    shared = agent.claude / "settings.json"
    shared.write_text(
        HookList(CLAUDE.events).install("", "/gone/bin/python -I -S /gone/reflector/hooks/fast.py")
    )
    handler = {"type": "command", "command": "/gone/tool && reflector hook"}
    (agent.claude / "settings.local.json").write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}})
    )
    checks = found(agent, "hooks", code=1)
    assert {check["fix"] for check in checks} == {None}
    mends = {check["mend"] for check in checks if str(shared) in check["text"]}
    assert mends == {
        "",
        "reflector install --scope project",
        "remove the hooks from all but one place",
    }
    agent.call("install")
    document = json.loads(settings(agent).read_text())
    document["hooks"]["PreCompact"] = 7
    settings(agent).write_text(json.dumps(document))
    said = agent.call("doctor", "--fix", code=None).err
    assert (
        f"hooks: the repair failed: {settings(agent)}: `hooks.PreCompact` is not an array" in said
    )


def test_fix_processes_long_waiting_sessions_if_free(
    agent: Agent,
) -> None:
    agent.ended("mis-001", id="s-2")
    (delivery,) = agent.spool.glob("*.json")
    came, _, rest = delivery.name.partition("-")
    delivery.rename(delivery.with_name(f"{int(came) - 2 * 3600 * 10**9:020d}-{rest}"))
    agent.environ = MODEL
    assert found(agent, "queue")[0]["fix"] is None
    agent.environ = {}
    (agent.claude / "reflector.toml").write_text("backend = ")
    (queue,) = found(agent, "queue", code=1)
    assert (queue["state"], queue["mend"], queue["fix"]) == ("warning", "reflector reflect", None)
    (agent.claude / "reflector.toml").unlink()
    _mended(agent, "records the waiting sessions")
    assert agent.counters()["mis-001"] == (1, 0)


@pytest.mark.slow
def test_shared_playbook_gets_a_working_merge_driver(agent: Agent) -> None:
    git(agent.project, "init", "-q")
    agent.call("team")
    for words in (
        ["--unset", "merge.reflector.driver"],
        ["merge.reflector.driver", "/gone/python -I -m x %O %A %B"],
    ):
        git(agent.project, "config", "--local", *words)
        assert found(agent, "git")[0]["mend"] == "reflector team"
        _mended(agent, "sets the merge driver in this clone's git configuration")


def test_refused_settings_are_one_of_the_checks(
    agent: Agent,
) -> None:
    path = agent.claude / "reflector.toml"
    path.write_text("idle_minuts = 5\n")
    first, *checks = agent.json("doctor", code=1)
    assert (first["name"], first["state"], first["mend"]) == (
        "settings",
        "error",
        "did you mean 'idle_minutes'?",
    )
    assert f"{path}: `idle_minuts` is not a setting" in first["text"]
    names = {one["name"] for one in checks}
    assert {"python", "sqlite", "project", "permissions", "queue", "hooks"} <= names
    assert not {"ledger", "backend"} & names  # which they are is a setting
    assert [one for one in checks if one["state"] == "error"] == []


def test_report_for_an_issue_has_no_private_word(agent: Agent, tmp_path: Path) -> None:
    agent.call("add", "pat", "Ask Jane at Initech first.")
    other = Agent(tmp_path / "merger-of-initech", agent.home)
    other.project.mkdir()
    other.call("add", "pat", "Nobody may know.")
    shutil.rmtree(other.project)
    agent.playbook.write_text(
        agent.playbook.read_text("utf-8").replace('"section"', '"Jane" "section"', 1) + "Initech"
    )
    config = agent.home / ".config/reflector/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        'base_url = "https://llm.initech.example/v1"\nidle_minutes = 7\nplaybook = "default"\n'
    )
    (tmp_path / "initech.jsonl").write_text("not a transcript of Jane")
    agent.hook("SessionEnd", session_id="jane", transcript_path=str(tmp_path / "initech.jsonl"))
    agent.call("drain", code=1)
    agent.environ |= {**MODEL, "REFLECTOR_LEDGER_URL": "", "REFLECTOR_MODEL": "initech-large"}
    told = agent.call("doctor", "--report", code=1).out
    for kept in (
        "Jane",
        "nitech",
        "sk-ant",
        "https",
        str(agent.home),
        str(agent.project),
        "Nobody",
    ):
        assert kept not in told
    assert (
        "\nsession parts completed: 1, proposals: 0, deliveries pending: 0, waiting: 0, failed: 1, "
        "broken: 0, "
    ) in told
    settings = "setting base_url (user)\n|setting model (environment)\n|idle_minutes (user) = 7"
    for said in ("reflector 1.", "sqlalchemy 2.", "ANOTHER no longer exists", *settings.split("|")):
        assert said in told
    assert re.search(r"^error: (\S+ ){1,8}\(1 times\)$", told, re.MULTILINE)
    config.write_text("idle_minutes = 'Jane'")
    assert "error    settings: ~/.config" in (told := agent.call("doctor", "--report", code=1).out)
    assert "Jane" not in told


def test_report_masks_quotes_addresses_and_secrets_of_checks(tmp_path: Path) -> None:
    check = Check(
        "x",
        (
            f"'Jane' said \"no\" to https://initech.example/a in {tmp_path}/b, "
            "API_KEY=Zx9-q7Lm2_Pw8Rt4"
        ),
    )
    assert report(Project(tmp_path, Config()), [check], None).splitlines()[-1] == (
        "ok       x: '…' said '…' to URL in PROJECT/b, API_KEY=[redacted:api-key]"
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("config.toml: `secretclient` is not a setting", "config.toml: '…' is not a setting"),
        ("the hook is /home/jane/bin/reflector", "the hook is /home/…/bin/reflector"),
        ("the hook is /Users/jane/bin/reflector", "the hook is /Users/…/bin/reflector"),
        ("the hook is ~/home/bin/reflector", "the hook is ~/home/bin/reflector"),
    ],
)
def test_report_masks_unknown_settings_and_homes(tmp_path: Path, said: str, shown: str) -> None:
    last = report(Project(tmp_path, Config()), [Check("x", said)], None).splitlines()[-1]
    assert last == f"ok       x: {shown}"
