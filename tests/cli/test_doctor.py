"""The doctor: what is in order is said, and what is not is said with what mends it."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.ledger import append
from reflector.ledger.url import sqlite_url
from tests.road.agent import BULLETS, Agent
from tests.road.sessions import Session


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """A project at work: installed, with a session that was started, ended and judged."""
    agent = Agent.in_folder(tmp_path)
    agent.call("install")
    path = Session("s-1").cites("pat-001").write(tmp_path / "s-1.jsonl")
    agent.call("drain")
    agent.hook("SessionStart")
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(path))
    agent.call("drain")
    return agent


def found(agent: Agent, name: str, *, code: int | None = None) -> list[dict[str, Any]]:
    return [check for check in agent.json("doctor", code=code) if check["name"] == name]


def troubles(agent: Agent, *, code: int = 0) -> dict[str, str]:
    return {check["name"]: check["mend"] for check in agent.json("doctor", code=code) if check["state"] != "ok"}


def test_where_all_is_well_every_line_says_so(agent: Agent) -> None:
    checks = agent.json("doctor")
    assert troubles(agent) == {}
    assert {"python", "sqlite", "schema", "triggers", "journal", "clock", "disk", "hooks", "spool", "backend"} <= {
        check["name"] for check in checks
    }
    told = agent.call("doctor").out
    assert "error" not in told
    assert "→" not in told


def test_one_is_told_in_the_singular(tmp_path: Path) -> None:
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


def test_a_bullet_that_a_person_wrote_a_secret_into_is_named_and_the_secret_is_not(agent: Agent) -> None:
    token = "ghp_" + "a1B2" * 9
    agent.write_playbook(
        {**BULLETS, "PROJECT CONTEXT": [{"name": "ctx-001", "text": f"Push with {token}.", "helpful": 0, "harmful": 0}]}
    )
    agent.call("list")
    (check,) = found(agent, "playbook")
    assert check["state"] == "error"
    assert check["text"].startswith(f"{agent.playbook}, bullet ctx-001: the text holds what looks like a secret")
    assert token not in agent.call("doctor", code=1).out


def test_bullets_of_the_users_own_that_are_not_told_here_are_named(agent: Agent) -> None:
    assert found(agent, "yours") == []
    agent.call("--user", "add", "pref", "Answer in English.")
    assert found(agent, "yours")[0]["text"] == "1 bullet of your own beside the project's"
    agent.write_playbook(
        {"USER PREFERENCES": [{"name": "pref-9001", "text": "Answer in Welsh.", "helpful": 0, "harmful": 0}]}
    )
    (check,) = found(agent, "yours")
    assert check["state"] == "warning"
    assert check["text"].endswith("others: pref-9001")
    assert str(agent.playbook) in check["mend"]


def test_looking_changes_nothing(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "p", tmp_path / "h")
    agent.project.mkdir()
    agent.home.mkdir()
    checks = agent.json("doctor", code=1)
    assert [check["mend"] for check in checks if check["state"] == "error"] == ["reflector install"]
    assert list(agent.project.iterdir()) == []


def test_when_each_hook_ran_last_is_told(agent: Agent) -> None:
    os.utime(agent.state / "fired" / "SessionEnd", (86400 * 365, 86400 * 365))
    assert found(agent, "fired SessionEnd")[0]["text"].startswith("197")
    (agent.state / "fired" / "SessionEnd").unlink()
    assert "start a session" in troubles(agent)["fired SessionEnd"]
    assert found(agent, "fired PreCompact")[0] == {
        "name": "fired PreCompact",
        "state": "ok",
        "text": "never in this project",
        "mend": "",
        "fix": None,
    }


def test_a_dropped_trigger_is_an_error(agent: Agent) -> None:
    with sqlite3.connect(agent.ledger) as connection:
        (name,) = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' LIMIT 1").fetchone()
        connection.execute(f"DROP TRIGGER {name}")
    connection.close()
    assert troubles(agent, code=1)["triggers"] == "reflector verify --mend-triggers"
    assert name in found(agent, "triggers", code=1)[0]["text"]
    agent.call("verify", "--mend-triggers", code=None)
    assert troubles(agent) == {}


@pytest.mark.parametrize(
    "content", [b"", b"no database at all, but text that is long enough" * 9, b"SQLite format 3\0"]
)
def test_a_ledger_that_is_none_is_an_error_and_is_left_as_it_is(agent: Agent, content: bytes) -> None:
    for path in agent.state.glob("ledger.db-*"):
        path.unlink()
    agent.ledger.write_bytes(content)
    assert "restore a backup" in troubles(agent, code=1)["ledger"]
    assert agent.ledger.read_bytes() == content


def test_files_that_others_may_read_are_told(agent: Agent) -> None:
    agent.state.chmod(0o755)
    assert troubles(agent)["permissions"].startswith("chmod")


def test_a_hook_whose_program_is_gone_is_an_error(agent: Agent) -> None:
    settings = agent.home / ".claude" / "settings.json"
    text = settings.read_text()
    command = json.loads(text)["hooks"]["Stop"][0]["hooks"][0]["command"]
    settings.write_text(text.replace(command.split()[0], "/gone/bin/python"))
    assert troubles(agent, code=1)["hooks"] == "reflector install"


def test_settings_that_cannot_be_read_are_an_error(agent: Agent) -> None:
    (agent.claude / "settings.json").write_text('{"hooks": [')
    assert "correct the file" in troubles(agent, code=1)["hooks"]


def test_the_file_that_install_would_refuse_is_named_before_install(agent: Agent) -> None:
    agent.call("uninstall")
    settings = agent.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"hooks": [')
    agent.call("install", code=1)
    assert found(agent, "hooks", code=1)[-1]["mend"] == f"correct {settings}, then reflector install"
    settings.unlink()
    (agent.claude / "settings.json").write_text('{"hooks": [')
    assert found(agent, "hooks", code=1)[-1]["mend"] == "reflector install"
    agent.call("install")


def test_hooks_that_are_switched_off_or_doubled_are_told(agent: Agent) -> None:
    agent.call("install", "--scope", "project")
    assert "hooks" in troubles(agent)
    (agent.claude / "settings.local.json").write_text('{"disableAllHooks": true}')
    assert any("disableAllHooks" in check["text"] for check in found(agent, "hooks", code=1))


def test_what_waits_and_what_failed_is_told(agent: Agent, tmp_path: Path) -> None:
    agent.hook("SessionEnd", session_id="s-2", transcript_path=str(tmp_path))
    agent.call("drain", code=1)
    assert troubles(agent)["spool"] == "reflector status"


def test_a_models_key_is_missed_and_never_shown(agent: Agent) -> None:
    agent.environ |= {"REFLECTOR_BACKEND": "anthropic"}
    assert "ANTHROPIC_API_KEY" in troubles(agent, code=1)["backend"]
    agent.environ |= {"ANTHROPIC_API_KEY": "sk-ant-secret-of-mine"}
    assert troubles(agent) == {}
    assert "secret" not in agent.call("doctor").out + agent.call("doctor", "--json").out


def test_a_prompt_of_ones_own_that_is_broken_is_an_error(agent: Agent) -> None:
    own = agent.state / "prompts" / "reflector.txt"
    own.parent.mkdir()
    own.write_text("{nothing}")
    assert "correct the file" in troubles(agent, code=1)["prompt"]


def _mended(agent: Agent, told: str) -> None:
    """What `doctor` says that --fix does, --fix does and says, and nothing is left to mend."""
    fixes = {check["name"]: check["fix"] for check in agent.json("doctor", code=None) if check["fix"]}
    assert told in fixes.values()
    said = agent.call("doctor", "--fix", code=None).err
    assert {f"{name}: {fix}" for name, fix in fixes.items()} <= set(said.splitlines())
    assert [check for check in agent.json("doctor", code=None) if check["fix"]] == []


def test_where_all_is_well_there_is_nothing_to_fix(agent: Agent) -> None:
    before = {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()}
    assert agent.call("doctor", "--fix").err == "nothing that --fix can fix\n"
    assert {path: path.read_bytes() for path in agent.project.rglob("*") if path.is_file()} == before


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


def test_fix_renews_hooks_whose_program_is_gone_and_leaves_everything_else(agent: Agent) -> None:
    settings = agent.home / ".claude" / "settings.json"
    whole = json.loads(settings.read_text())
    whole["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "say done"}]})
    sound = json.dumps(whole, indent=3)
    command = whole["hooks"]["SessionEnd"][0]["hooks"][0]["command"]
    settings.write_text(sound.replace(command.split()[0], "/gone/bin/python"))
    _mended(agent, f"writes the hooks of this installation into {settings}")
    assert json.loads(settings.read_text()) == whole
    assert troubles(agent) == {}


def test_fix_adds_an_event_that_the_settings_lack(agent: Agent) -> None:
    settings = agent.home / ".claude" / "settings.json"
    document = json.loads(settings.read_text())
    whole = json.dumps(document)
    del document["hooks"]["PreCompact"]
    settings.write_text(json.dumps(document))
    _mended(agent, f"writes the hooks of this installation into {settings}")
    assert json.loads(settings.read_text())["hooks"].keys() == json.loads(whole)["hooks"].keys()


def test_hooks_that_everybody_shares_or_a_person_wrote_are_not_fixed(agent: Agent) -> None:
    agent.call("uninstall")
    agent.call("install", "--scope", "project")
    shared = agent.claude / "settings.json"
    command = json.loads(shared.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    shared.write_text(shared.read_text().replace(command.split()[0], "/gone/bin/python"))
    own = agent.claude / "settings.local.json"
    handler = {"type": "command", "command": "/gone/tool && reflector hook"}
    own.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}))
    checks = found(agent, "hooks", code=1)
    assert {check["fix"] for check in checks} == {None}
    assert {check["mend"] for check in checks if str(shared) in check["text"]} == {
        "reflector install --scope project",
        "",
    }


def test_fix_removes_what_a_killed_command_left_an_hour_ago(agent: Agent) -> None:
    old = [agent.claude / ".playbook.json.tmp", agent.home / ".claude/.settings.json.reflector-tmp"]
    old.append(agent.state / ".injection.txt.tmp")
    for path in old:
        path.write_text("half")
        os.utime(path, (1, 1))
    young = agent.state / ".young.tmp"
    young.write_text("half")
    _mended(agent, "removes 3 temporary files")
    assert [path for path in [*old, young] if path.exists()] == [young]


def _delivered_long_ago(agent: Agent, transcript: Path) -> None:
    agent.hook("SessionEnd", session_id="s-2", transcript_path=str(transcript))
    (delivery,) = agent.spool.glob("*.json")
    came, _, rest = delivery.name.partition("-")
    delivery.rename(delivery.with_name(f"{int(came) - 2 * 3600 * 10**9:020d}-{rest}"))


def test_fix_processes_what_has_waited_for_long(agent: Agent, tmp_path: Path) -> None:
    _delivered_long_ago(agent, Session("s-2").cites("mis-001").write(tmp_path / "s-2.jsonl"))
    agent.environ = {"REFLECTOR_BACKEND": "anthropic", "ANTHROPIC_API_KEY": "sk-ant-secret-of-mine"}
    assert found(agent, "spool")[0]["fix"] is None  # it would cost money
    agent.environ = {}
    _mended(agent, "processes what waits")
    assert agent.counters()["mis-001"] == (1, 0)


def test_fix_says_what_it_could_not_mend(agent: Agent) -> None:
    settings = agent.home / ".claude" / "settings.json"
    document = json.loads(settings.read_text())
    del document["hooks"]["PreCompact"]
    document["hooks"]["PreCompact"] = [{"hooks": 7}]
    settings.write_text(json.dumps(document))
    said = agent.call("doctor", "--fix", code=None).err
    assert said.startswith(f"hooks: not fixed: {settings}: the hooks of")


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


def test_a_playbook_file_that_is_gone_is_named_with_the_command_that_writes_it_again(agent: Agent) -> None:
    agent.call("drain")
    agent.playbook.unlink()
    (check,) = found(agent, "playbook")
    assert (check["state"], check["mend"]) == ("warning", "write it again from the ledger with `reflector drain`")
    assert f"{agent.playbook} is missing" in check["text"]
    agent.call("drain")
    assert found(agent, "playbook")[0]["state"] == "ok"


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
    agent.call("import", tmp_path / "old.ndjson", "--merge")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]
    fields = ("name", "helpful", "harmful")
    assert [[one[field] for field in fields] for one in agent.json("list")] == [
        [one[field] for field in fields] for one in counted
    ]


def test_a_ledger_that_was_copied_to_where_the_settings_point_is_no_trouble(agent: Agent, tmp_path: Path) -> None:
    agent.call("drain")
    agent.call("copy", "--to", sqlite_url(tmp_path / "copy.db"))
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "copy.db")}
    agent.call("add", "pat", "Read the error first")
    assert [check["state"] for check in found(agent, "ledger")] == ["ok"]


@pytest.mark.parametrize("text", ["Read the log.", "Ask the team."])
def test_two_ledgers_that_named_their_first_bullet_alike_are_not_taken_for_one(tmp_path: Path, text: str) -> None:
    agent = Agent.in_folder(tmp_path, {})
    agent.call("add", "pat", "Read the log.")
    agent.counted()
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "team.db")}
    agent.playbook.unlink()
    agent.call("add", "pat", text)
    (_, check) = found(agent, "ledger")
    assert (check["state"], str(agent.ledger) in check["text"]) == ("warning", True)


def test_a_ledger_that_was_merged_under_other_names_is_no_trouble(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    agent.call("add", "pat", "Read the log.")
    agent.counted()
    (tmp_path / "old.ndjson").write_text(agent.call("export", "--format", "ndjson").out)
    agent.environ = {"REFLECTOR_LEDGER_URL": sqlite_url(tmp_path / "team.db")}
    agent.playbook.unlink()
    agent.call("add", "pat", "Ask the team.")
    agent.call("import", tmp_path / "old.ndjson", "--merge", "--rename")
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


def test_a_playbook_that_cannot_be_read_is_named_with_its_place_before_it_is_called_empty(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.playbook.write_text('{"bad"')
    (check,) = found(agent, "playbook", code=1)
    assert check["text"].startswith(f"{agent.playbook}, line 1, column 7: is not JSON: Expecting ':' delimiter")
    assert check["fix"] is None
    assert f"{agent.playbook}: line 1, column 7" in agent.call("status", code=1).out


@pytest.mark.parametrize(
    ("file", "text", "where", "mend"),
    [
        (
            "project/.claude/reflector.toml",
            "idle_minutes = 5\nbackend = \n",
            "line 2, column 11",
            "correct or remove it",
        ),
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


def test_fix_processes_nothing_under_settings_that_are_refused(agent: Agent, tmp_path: Path) -> None:
    _delivered_long_ago(agent, Session("s-2").cites("pat-001").write(tmp_path / "s-2.jsonl"))
    (agent.claude / "reflector.toml").write_text("backend = ")
    (spool,) = found(agent, "spool", code=1)
    assert (spool["state"], spool["mend"], spool["fix"]) == ("warning", "reflector drain", None)
    agent.call("doctor", "--fix", code=1)
    assert len(agent.deliveries()) == 1


@pytest.mark.parametrize("command", ["status", "list", "drain"])
def test_another_command_says_in_one_line_why_settings_are_refused(agent: Agent, command: str) -> None:
    (agent.claude / "reflector.toml").write_text("backend = ")
    ran = agent.call(command, code=2)
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert "reflector.toml is not TOML" in line


def test_the_status_line_does_not_need_the_settings(agent: Agent) -> None:
    line = agent.run("statusline").out
    (agent.claude / "reflector.toml").write_text("backend = ")
    assert agent.run("statusline").out == line
