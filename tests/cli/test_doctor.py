"""The doctor: what is in order is said, and what is not is said with what mends it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.hooks.install import EVENTS, HookList
from reflector.ledger import append
from reflector.ledger.url import sqlite_url
from tests.road.agent import BULLETS, Agent


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project at work: installed, with a session that was started, ended and judged."""
    agent = Agent.in_folder(tmp_path)
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
    return {check["name"]: check["mend"] for check in agent.json("doctor", code=code) if check["state"] != "ok"}


def test_where_all_is_well_every_line_says_so_and_there_is_nothing_to_fix(agent: Agent) -> None:
    names = {"python", "sqlite", "schema", "triggers", "journal", "clock", "disk", "hooks", "spool", "backend"}
    assert names <= {check["name"] for check in agent.json("doctor")}
    assert troubles(agent) == {}
    told = agent.call("doctor").out
    assert ("error" in told, "→" in told) == (False, False)
    before = {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()}
    assert agent.call("doctor", "--fix").err == "nothing that --fix can fix\n"
    assert {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()} == before


def test_one_is_said_in_the_singular(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {"PATTERNS & APPROACHES": []})
    agent.call("add", "pat", "Write the failing test first.")
    agent.hook("Stop", session_id="s-2", transcript_path=str(tmp_path / "s-2.jsonl"))
    assert found(agent, "ledger")[0]["text"].startswith("1 event, head")
    assert found(agent, "playbook")[0]["text"] == "1 bullet"
    assert found(agent, "spool")[0]["text"] == "0 pending, 1 session open"
    agent.counted()
    assert found(agent, "reflections")[0]["text"] == "1 session window, none open"
    agent.hook("SessionEnd", session_id="s-3", transcript_path=str(tmp_path), reason="other")
    agent.call("drain", code=1)
    assert found(agent, "spool")[0]["text"] == "1 delivery failed, 0 could not be understood"


def test_looking_changes_nothing(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "p", tmp_path / "h")
    agent.project.mkdir()
    agent.home.mkdir()
    checks = agent.json("doctor", code=1)
    assert [check["mend"] for check in checks if check["state"] == "error"] == ["reflector install"]
    assert list(agent.project.iterdir()) == []


def _lose_a_trigger(agent: Agent) -> None:
    with closing(sqlite3.connect(agent.ledger, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER event_no_delete")


def _spoil_the_ledger(agent: Agent, content: bytes) -> None:
    for path in agent.state.glob("ledger.db-*"):
        path.unlink()
    agent.ledger.write_bytes(content)


def _lose_the_program(agent: Agent) -> None:
    command = json.loads(settings(agent).read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    settings(agent).write_text(settings(agent).read_text().replace(command.split()[0], "/gone/bin/python"))


def _lose_an_event(agent: Agent) -> None:
    document = json.loads(settings(agent).read_text())
    del document["hooks"]["PreCompact"]
    settings(agent).write_text(json.dumps(document))


def _fail_a_delivery(agent: Agent) -> None:
    agent.hook("SessionEnd", session_id="s-2", transcript_path=str(agent.home))
    agent.call("drain", code=1)


def _write_a_prompt(agent: Agent) -> None:
    own = agent.state / "prompts" / "reflector.txt"
    own.parent.mkdir()
    own.write_text("{nothing}")


def _write_a_secret(agent: Agent) -> None:
    secret = {"name": "ctx-001", "text": f"Push with ghp_{'a1B2' * 9}.", "helpful": 0, "harmful": 0}
    agent.write_playbook({**BULLETS, "PROJECT CONTEXT": [secret]})
    agent.call("list")


Break = Callable[[Agent], object]
#: What is done, the check that names it, its state, and words of its text and of what mends it.
TROUBLES: dict[str, tuple[Break, str, str, str, str]] = {
    "trigger": (
        _lose_a_trigger,
        "triggers",
        "error",
        "event_no_delete",
        "reflector rebuild --mend",
    ),
    "empty ledger": (lambda agent: _spoil_the_ledger(agent, b""), "ledger", "error", "", "restore a backup"),
    "prose": (lambda agent: _spoil_the_ledger(agent, b"no database, " * 99), "ledger", "error", "", "restore a backup"),
    "mode": (lambda agent: agent.state.chmod(0o755), "permissions", "warning", "others may read", "chmod"),
    "program": (_lose_the_program, "hooks", "error", "/gone/bin/python is gone", "reflector install"),
    "event": (_lose_an_event, "hooks", "warning", "nothing at PreCompact", "reflector install"),
    "settings": (
        lambda agent: (agent.claude / "settings.json").write_text('{"hooks": ['),
        *("hooks", "error", "line 1, column", "correct the file"),
    ),
    "switch": (
        lambda agent: (agent.claude / "settings.local.json").write_text('{"disableAllHooks": true}'),
        *("hooks", "error", '"disableAllHooks": true', "remove it"),
    ),
    "twice": (
        lambda agent: agent.call("install", "--scope", "project"),
        *("hooks", "warning", "installed more than once", ""),
    ),
    "codex": (
        lambda agent: agent.call("install", "--agent", "codex"),
        *("hooks", "warning", "has no note that you trust", "start codex"),
    ),
    "fired": (
        lambda agent: (agent.state / "fired" / "SessionEnd").unlink(),
        *("fired SessionEnd", "warning", "never in this project", "start a session"),
    ),
    "delivery": (_fail_a_delivery, "spool", "warning", "1 delivery failed", "reflector status"),
    "key": (
        lambda agent: agent.environ.update(REFLECTOR_BACKEND="anthropic"),
        *("backend", "error", "", "ANTHROPIC_API_KEY"),
    ),
    "prompt": (_write_a_prompt, "prompt", "error", "", "correct the file"),
    "old setting": (
        lambda agent: (agent.claude / "reflector.toml").write_text('judgement_weights = "w.json"\n'),
        *("settings", "warning", "judgement_weights is not a setting any more", "remove judgement_weights"),
    ),
    "secret": (_write_a_secret, "playbook", "error", "bullet ctx-001: the text holds what looks like a secret", ""),
    "playbook": (
        lambda agent: agent.playbook.unlink(),
        *("playbook", "warning", "is missing", "write it again from the ledger with `reflector reflect`"),
    ),
    "broken playbook": (
        lambda agent: agent.playbook.write_text('{"bad"'),
        *("playbook", "error", "line 1, column 7: is not JSON: Expecting ':' delimiter", ""),
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_a_trouble_is_named_with_its_way_out(agent: Agent, name: str) -> None:
    spoil, check, state, text, mend = TROUBLES[name]
    spoil(agent)
    named = [one for one in found(agent, check) if one["state"] == state]
    assert any(text in one["text"] and mend in one["mend"] for one in named), found(agent, check)
    told = agent.call("doctor", code=1 if state == "error" else 0).out
    assert "a1B2" not in told


def test_hooks_that_codex_trusts_are_no_trouble(agent: Agent) -> None:
    agent.call("install", "--agent", "codex")
    noted = f'[hooks.state."{agent.home}/.codex/hooks.json:stop:0:0"]\ntrusted_hash = "sha256:0"\n'
    (agent.home / ".codex/config.toml").write_text(noted)
    assert troubles(agent) == {}


def test_a_models_key_is_never_shown(agent: Agent) -> None:
    agent.environ |= {"REFLECTOR_BACKEND": "anthropic", "ANTHROPIC_API_KEY": "sk-ant-secret-of-mine"}
    assert troubles(agent) == {}
    assert "secret" not in agent.call("doctor").out + agent.call("doctor", "--json").out


def test_bullets_of_the_users_own_that_do_not_show_here_are_named(agent: Agent) -> None:
    assert found(agent, "yours") == []
    agent.call("--user", "add", "pref", "Answer in English.")
    assert found(agent, "yours")[0]["text"] == "1 bullet of your own beside the project's"
    welsh = {"name": "pref-9001", "text": "Answer in Welsh.", "helpful": 0, "harmful": 0}
    agent.write_playbook({"USER PREFERENCES": [welsh]})
    (check,) = found(agent, "yours")
    assert (check["state"], check["text"].endswith("others: pref-9001")) == ("warning", True)
    assert str(agent.playbook) in check["mend"]


def test_the_file_that_install_would_refuse_is_named_before_install(agent: Agent) -> None:
    agent.call("uninstall")
    settings(agent).parent.mkdir(exist_ok=True)
    settings(agent).write_text('{"hooks": [')
    assert found(agent, "hooks")[-1]["mend"] == f"correct {settings(agent)}, then reflector install"
    settings(agent).rename(agent.claude / "settings.json")
    assert found(agent, "hooks")[-1]["mend"] == "reflector install"


def _mended(agent: Agent, told: str) -> None:
    """What `doctor` says that --fix does, --fix does and says, and nothing is left to mend."""
    fixes = {check["name"]: check["fix"] for check in agent.json("doctor", code=None) if check["fix"]}
    assert told in fixes.values()
    said = agent.call("doctor", "--fix", code=None).err
    assert {f"{name}: {fix}" for name, fix in fixes.items()} <= set(said.splitlines())
    assert [check for check in agent.json("doctor", code=None) if check["fix"]] == []


def test_a_broken_playbook_is_named_with_the_command_that_mends_it_and_is_said_once(agent: Agent) -> None:
    agent.call("add", "pat", "Read the error first")
    agent.playbook.write_text("{,")
    said = agent.call("doctor", "--fix", code=1).err
    assert said.startswith("nothing that --fix can fix; playbook: ")
    assert "`reflector rebuild`" in said
    assert agent.call("undo", "--dry-run").err.count("is not JSON") == 1


def test_fix_takes_our_files_from_others_and_follows_no_link(agent: Agent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("a person's")
    outside.chmod(0o644)
    (agent.state / "link").symlink_to(outside)
    agent.state.chmod(0o755)
    agent.ledger.chmod(0o644)
    _mended(agent, "takes them, and all below, from everybody but you")
    assert [path for path in agent.state.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o077] == []
    assert outside.stat().st_mode & 0o777 == 0o644
    assert agent.playbook.stat().st_mode & 0o044


def test_fix_renews_our_hooks_and_leaves_everything_else(agent: Agent) -> None:
    whole = json.loads(settings(agent).read_text())
    whole["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    settings(agent).write_text(json.dumps(whole, indent=3))
    _lose_the_program(agent)
    _lose_an_event(agent)
    _mended(agent, f"writes the hooks of this installation into {settings(agent)}")
    assert json.loads(settings(agent).read_text()) == whole
    assert troubles(agent) == {}


def test_hooks_that_everybody_shares_or_a_person_wrote_are_not_fixed(agent: Agent) -> None:
    agent.call("uninstall")
    shared = agent.claude / "settings.json"
    shared.write_text(HookList(EVENTS).install("", "/gone/bin/python -I -S /gone/reflector/hooks/fast.py"))
    handler = {"type": "command", "command": "/gone/tool && reflector hook"}
    (agent.claude / "settings.local.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}))
    checks = found(agent, "hooks", code=1)
    assert {check["fix"] for check in checks} == {None}
    mends = {check["mend"] for check in checks if str(shared) in check["text"]}
    assert mends == {"reflector install --scope project", ""}


def test_fix_says_what_it_could_not_mend(agent: Agent) -> None:
    document = json.loads(settings(agent).read_text())
    document["hooks"]["PreCompact"] = 7
    settings(agent).write_text(json.dumps(document))
    said = agent.call("doctor", "--fix", code=None).err
    assert said.startswith(f"hooks: not fixed: {settings(agent)}: hooks.PreCompact is not an array")


def test_fix_removes_what_a_killed_command_left_an_hour_ago(agent: Agent) -> None:
    old = [agent.claude / ".playbook.json.tmp", agent.home / ".claude/.settings.json.reflector-tmp"]
    old.append(agent.state / ".injection.txt.tmp")
    young = agent.state / ".young.tmp"
    for path in (*old, young):
        path.write_text("half")
        os.utime(path, None if path == young else (1, 1))
    _mended(agent, "removes 3 temporary files")
    assert [path for path in [*old, young] if path.exists()] == [young]


def _delivered_long_ago(agent: Agent) -> None:
    agent.ended("mis-001", id="s-2")
    (delivery,) = agent.spool.glob("*.json")
    came, _, rest = delivery.name.partition("-")
    delivery.rename(delivery.with_name(f"{int(came) - 2 * 3600 * 10**9:020d}-{rest}"))


def test_fix_processes_what_has_waited_for_long(agent: Agent) -> None:
    _delivered_long_ago(agent)
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", "ANTHROPIC_API_KEY": "sk-ant-secret-of-mine"}
    assert found(agent, "spool")[0]["fix"] is None  # it would cost money
    agent.environ = {}
    _mended(agent, "processes what waits")
    assert agent.counters()["mis-001"] == (1, 0)


def test_a_shared_playbook_without_a_working_merge_driver_gets_one(agent: Agent) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(agent.project), *words], check=True, capture_output=True)

    git("init", "-q")
    agent.call("install", "--git")
    for words in (["--unset", "merge.reflector.driver"], ["merge.reflector.driver", "/gone/python -I -m x %O %A %B"]):
        git("config", "--local", *words)
        assert found(agent, "git")[0]["mend"] == "reflector install --git"
        _mended(agent, "sets the merge driver in this clone's git configuration")


def test_after_a_clock_that_was_ahead_it_is_said_that_no_count_is_wrong(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as ahead:
        ahead.setattr(append, "utc_now", lambda: "2999-01-01T00:00:00.000000Z")
        agent.call("add", "pat", "Read the error first")
    (check,) = found(agent, "clock")
    assert (check["state"], "from 2999-01-01T00:00:00" in check["text"]) == ("warning", True)
    assert check["mend"].startswith("set the clock if it is wrong now;")
    assert check["mend"].endswith("no count is wrong")


def test_a_ledger_that_the_settings_leave_behind_is_named_with_the_way_to_its_counts(
    agent: Agent, tmp_path: Path
) -> None:
    agent.counted()
    counted = agent.json("list")
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "other.db"), "REFLECTOR_PLAYBOOK": "shop"}
    agent.call("drain")
    (_, check) = found(agent, "ledger")
    assert check["state"] == "warning"
    assert check["text"].startswith(f"{agent.ledger} has 5 events, and its history is not in the ledger")
    # The way out, as it is told.
    variables, export, *_ = re.split(r" (?=reflector export)| > ", check["mend"].partition(";")[0])
    now, agent.environ = agent.environ, dict(one.split("=", 1) for one in shlex.split(variables))
    (tmp_path / "old.ndjson").write_text(agent.call(*export.split()[1:]).out)
    agent.environ = now
    agent.call("import", tmp_path / "old.ndjson")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]
    fields = ("name", "helpful", "harmful")
    assert [[one[field] for field in fields] for one in agent.json("list")] == [
        [one[field] for field in fields] for one in counted
    ]


def test_a_ledger_that_was_copied_to_where_the_settings_point_is_no_trouble(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    agent.call("ledger", "copy", sqlite_url(tmp_path / "copy.db"))
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "copy.db")}
    agent.call("add", "pat", "Read the error first")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]


def test_a_ledger_that_was_merged_under_other_names_is_no_trouble(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    agent.call("add", "pat", "Read the log.")
    agent.counted()
    (tmp_path / "old.ndjson").write_text(agent.call("export", "--format", "ndjson").out)
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "team.db")}
    agent.playbook.unlink()
    agent.call("add", "pat", "Ask the team.")
    agent.call("import", tmp_path / "old.ndjson", "--rename")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]


def test_another_playbook_of_the_projects_own_ledger_file_leaves_no_ledger_behind(agent: Agent) -> None:
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(agent.ledger), "REFLECTOR_PLAYBOOK": "shop"}
    agent.call("drain")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]


def test_the_doctor_leaves_nothing_beside_a_ledger_that_it_only_reads(agent: Agent, tmp_path: Path) -> None:
    def beside() -> list[str]:
        return sorted(path.name for path in agent.state.iterdir() if path.name.startswith("ledger.db"))

    before = beside()
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "other.db")}
    assert found(agent, "ledger")[1]["state"] == "warning"
    assert beside() == before == ["ledger.db", "ledger.db.lock"]
    agent.environ = {}
    with closing(sqlite3.connect(agent.ledger, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert found(agent, "schema", code=1)[0]["state"] == "error"
    assert beside() == before


@pytest.mark.parametrize(
    ("file", "text", "where", "mend"),
    [
        ("project/.claude/reflector.toml", "backend = \n", "line 1, column 11", "correct or remove it"),
        ("home/.config/reflector/config.toml", "[oops\n", "line 1", "correct or remove it"),
        ("project/.claude/reflector.toml", "idle_minuts = 5\n", "idle_minuts", "did you mean 'idle_minutes'?"),
        ("project/.claude/reflector.toml", b"\xff\xfe", "cannot be read", "correct or remove it"),
    ],
)
def test_settings_that_are_refused_are_one_of_the_checks_and_what_needs_none_is_checked(
    agent: Agent, tmp_path: Path, file: str, text: str | bytes, where: str, mend: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = agent.ledger.read_bytes()
    first, *checks = agent.json("doctor", code=1)
    assert (first["name"], first["state"], first["mend"]) == ("settings", "error", mend)
    assert str(path) in first["text"]
    assert where in first["text"]
    assert {"python", "sqlite", "project", "permissions", "spool", "hooks", "prompt"} <= {one["name"] for one in checks}
    # Which ledger and which judge is a setting.
    assert not {"ledger", "backend"} & {one["name"] for one in checks}
    assert [one for one in checks if one["state"] == "error"] == []
    agent.call("doctor", "--fix", code=1)
    assert agent.ledger.read_bytes() == before


def test_fix_processes_nothing_under_settings_that_are_refused(agent: Agent) -> None:
    _delivered_long_ago(agent)
    (agent.claude / "reflector.toml").write_text("backend = ")
    (spool,) = found(agent, "spool", code=1)
    assert (spool["state"], spool["mend"], spool["fix"]) == ("warning", "reflector reflect", None)
    agent.call("doctor", "--fix", code=1)
    assert len(agent.deliveries()) == 1


def test_another_command_says_in_one_line_why_settings_are_refused_and_the_status_line_needs_none(
    agent: Agent,
) -> None:
    line = agent.run("statusline").out
    (agent.claude / "reflector.toml").write_text("backend = ")
    assert agent.run("statusline").out == line
    for command in ("status", "drain"):
        ran = agent.call(command, code=2)
        assert (ran.out, ran.err.count("\n"), "reflector.toml is not TOML" in ran.err) == ("", 1, True)
