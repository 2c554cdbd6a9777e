"""The sessions that agents still keep: found, shown, recorded once, oldest first."""

import json
import shutil
from pathlib import Path

import pytest

from reflector.sessions.found_transcripts import project_hash
from tests.building import commit, git
from tests.road.agent import BULLETS, Agent
from tests.road.sessions import Session
from tests.transcripts.agents import SESSION, Codex, GeminiDocument


@pytest.fixture
def agent(agent: Agent, tmp_path: Path) -> Agent:
    """A project with a playbook, and a client that still has three of its sessions and one of
    another.
    """
    for number, (day, place) in enumerate(
        [(3, agent.project), (1, agent.project / "src"), (2, agent.project)]
    ):
        put(agent, f"s-{number}", f"2026-01-0{day}", place)
    put(agent, "other", "2026-01-01", tmp_path / "other")
    return agent


def folder(agent: Agent) -> Path:
    return agent.home / ".claude" / "projects" / "x"


def put(
    agent: Agent, name: str, day: str, cwd: Path | str | None = None, session: Session | None = None
) -> None:
    """Put a session into the client's folder that worked in a folder, or in the agent's project."""
    session = session or Session(name).cites("pat-001", "helpful")
    for record in session.records:
        record |= {
            "cwd": str(agent.project if cwd is None else cwd),
            "timestamp": day + record["timestamp"][10:],
        }
    session.write(folder(agent) / f"{name}.jsonl")


def within(agent: Agent, name: str) -> Agent:
    """A playbook of its own in a sub-folder."""
    inner = Agent(agent.project / name, agent.home)
    inner.claude.mkdir(parents=True)
    inner.write_playbook(BULLETS)
    return inner


def sessions(agent: Agent) -> list[str]:
    return [
        event["session_id"] for event in agent.json("log", "--type", "session.recorded", "-n", "0")
    ]


def test_doctor_counts_kept_and_recorded_sessions(agent: Agent) -> None:
    def counted() -> tuple[str, str]:
        (found,) = [one for one in agent.json("doctor", code=None) if one["name"] == "sessions"]
        return found["text"], found["mend"]

    kept = "3 sessions on this machine (Claude Code 3)"
    assert counted() == (f"{kept}; 0 sessions in the ledger", "reflector history")
    agent.call("history")
    assert counted() == (f"{kept}; 3 sessions in the ledger", "")


def test_report_names_sessions_to_record(agent: Agent) -> None:
    way_out = "Nothing is recorded yet. Record 3 sessions of this project: reflector history"
    page = agent.project / "report.html"
    assert way_out in agent.call("report", "--out", page).out.splitlines()
    assert "Your agents keep 3 sessions of this project" in page.read_text("utf-8")
    agent.call("history")
    assert "Nothing is recorded yet" not in agent.call("report", "--out", page).out


def test_own_sessions_are_recorded_once_oldest_first(agent: Agent) -> None:
    dry = agent.json("history", "--dry-run")
    (claude,) = dry["agents"]
    assert (claude["agent"], claude["files"]) == ("claude", 3)
    assert (claude["from"], claude["to"]) == ("2026-01-01", "2026-01-03")
    assert dry["recorded"] is None
    assert not agent.ledger.exists()
    agent.call("history", "--since", "2026-01-02")
    assert sessions(agent) == ["s-2", "s-0"]
    shutil.rmtree(agent.state)
    agent.loses_its_copy()
    agent.write_playbook(BULLETS)
    for new in (3, 0):
        assert f"{new} of 3 files had new records" in agent.call("history").err
        assert sessions(agent) == ["s-1", "s-2", "s-0"]
        assert agent.counters()["pat-001"] == (3, 0)


def test_sessions_of_a_removed_worktree_count_once(
    agent: Agent,
) -> None:
    inner = within(agent, "src")
    commit(agent.project)
    worktree = agent.project / ".claude" / "worktrees" / "fix"
    git(agent.project, "worktree", "add", worktree)
    put(agent, "there", "2026-01-05", worktree / "src")
    inner.call("history")
    shutil.rmtree(worktree)
    agent.call("history")
    inner.call("history")
    # what a folder with a playbook of its own has is not the outer one's
    assert sessions(agent) == ["s-2", "s-0"]
    assert sessions(inner) == ["s-1", "there"]


def test_unreadable_file_is_named_and_stops_nothing(agent: Agent) -> None:
    (folder(agent) / "bad.jsonl").write_text(
        json.dumps({"cwd": str(agent.project), "kind": "nobody's"}) + "\n"
    )
    done = agent.json("history", code=1)
    assert (done["recorded"], ["bad.jsonl" in one["error"] for one in done["failed"]]) == (
        3,
        [True],
    )


def test_history_prints_news_result_and_next_step(agent: Agent, tmp_path: Path) -> None:
    agent.call("history", "--since", "2026-01-03")
    shown = agent.call("history", "--dry-run").out.splitlines()
    assert shown[0].split() == ["agent", "files", "new", "cites", "MB", "from", "to"]
    assert shown[1].startswith("Claude Code      3    2      2  ")
    assert " with 2 citations.\nNext: reflector list\n" in agent.call("history").err
    bare = Agent(tmp_path / "bare", agent.home)
    bare.claude.mkdir(parents=True)
    (bare.project / "AGENTS.md").write_text("- Use integer cents.\n")
    put(bare, "bare", "2026-01-01", None, Session("bare").user("Rename it.").agent("Done."))
    assert bare.call("history").err.splitlines() == [
        "If a session ran before you had a playbook, it cites no rule and changes no count.",
        "bare: 1 of 1 file had new records: 2 records with 0 citations.",
        "Next: reflector check (1 rule in AGENTS.md)",
    ]
    put(
        bare,
        "wish",
        "2026-01-02",
        None,
        Session("wish").user("Always run the linter before you push.").agent("Done."),
    )
    assert (
        "Your lasting requests: 1 of 1 became proposals.\nNext: reflector review\n"
        in bare.call("history").err
    )


def test_paid_judge_needs_consent_for_new_sessions(agent: Agent) -> None:
    for since, asked in (("2026-01-02", "up to 3 sessions"), ("2026-01-01", "up to 1 session ")):
        agent.environ["REFLECTOR_BACKEND"] = "anthropic"
        told = agent.call("history", code=2).err
        assert asked in told
        assert "--yes" in told
        del agent.environ["REFLECTOR_BACKEND"]
        agent.call("history", "--since", since)
    agent.environ["REFLECTOR_BACKEND"] = "anthropic"
    assert "0 of 3 files had new records: 0 records with 0 citations." in agent.call("history").err


def test_missing_sessions_are_no_error(agent: Agent) -> None:
    kept = agent.home / ".claude" / "projects"
    shutil.rmtree(kept)
    kept.mkdir()
    told = agent.call("history").err
    assert told == f"Nothing to record: no session of this project is in {kept}.\n"
    shutil.rmtree(agent.home / ".claude")
    told = agent.call("history").err
    assert told.startswith("Nothing to record: no folder with sessions of Claude Code or ")
    assert "reflector ingest FILE" in told
    assert not agent.ledger.exists()


def test_old_sessions_keep_their_own_dates(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.environ["TZ"] = "UTC"
    monkeypatch.setattr("reflector.ledger.append.utc_now", lambda: "2026-01-10T00:00:00.000000Z")
    put(agent, "s-9", "2026-01-02", session=Session("s-9").cites("mis-001", "helpful"))
    agent.call("history")
    for words in (["blame", "pat-001"], ["log"], ["show", "s-0"]):
        assert "2026-01-03" in agent.call(*words).out, words
    assert "3 Jan" in agent.call("list").out
    day = "2026-01-02"
    assert len(agent.json("log", day, "--type", "bullet.tagged")) == 2
    recent, *_, never = (one["name"] for one in agent.json("list", "--by", "last-cited"))
    assert (recent, never) == ("pat-001", "pat-002")
    for moment, names in (
        (("30 days ago",), {"pat-001", "pat-002", "mis-001"}),
        (("2025-12-11", "--as-of", "2026-01-10"), {"pat-002"}),
        (("30 days ago", "--as-of", "2026-01-10"), {"pat-002"}),
        (("7 days ago", "--as-of", "2026-01-10"), {"pat-002", "mis-001"}),
    ):
        assert {one["name"] for one in agent.json("list", "--since", *moment)} == names


def codex_at(agent: Agent, place: str, id: str) -> Path:
    """A session of Codex CLI in a folder of its own."""
    session = Codex(id).person("Fix it.").model("As [pat-001] says.")
    session.records[0]["payload"]["cwd"] = str(agent.project)
    return session.write(agent.home / ".codex" / place / f"rollout-2026-10-01T10-00-00-{id}.jsonl")


def test_archived_sessions_are_recorded_and_compressed_ones_named(agent: Agent) -> None:
    codex_at(agent, "archived_sessions", SESSION)
    squeezed = codex_at(agent, "sessions/2026/11/01", SESSION.replace("a", "b")).rename
    path = squeezed(
        agent.home / ".codex" / "sessions" / "2026" / "11" / "01" / "rollout-2026-11-01.jsonl.zst"
    )
    done = agent.call("history", "--agent", "codex")
    assert (
        f"in all projects, reflector cannot read 1 compressed session of Codex CLI: {path}"
        in done.err
    )
    assert [event["data"]["cited"] for event in agent.events("session.recorded")] == [["pat-001"]]
    (agent.project / "CLAUDE.md").write_text("- Run the linter before you push.\n")
    assert agent.json("check", "--dry-run")["sessions"]["Codex CLI"] == 1
    assert agent.json("check", "--dry-run")["compressed"] == {"Codex CLI": 1}
    assert str(path) in agent.call("check", "--dry-run").err


def test_compressed_sessions_alone_are_named(agent: Agent) -> None:
    path = agent.home / ".codex" / "sessions" / "2026" / "rollout.jsonl.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    done = agent.call("history", "--agent", "codex", "--dry-run")
    assert "no session of this project" in done.err
    assert (
        f"in all projects, reflector cannot read 1 compressed session of Codex CLI: {path}"
        in done.err
    )


def test_history_records_the_sessions_of_all_agents(agent: Agent) -> None:
    codex_at(agent, "sessions", SESSION)
    gemini_at(agent)
    dry = agent.json("history", "--dry-run")
    assert {kept["agent"]: kept["files"] for kept in dry["agents"]} == {
        "claude": 3,
        "codex": 1,
        "gemini": 1,
    }
    assert agent.json("history")["recorded"] == 5
    assert agent.json("history")["recorded"] == 0


def gemini_at(agent: Agent) -> None:
    """A chat of Gemini CLI, which names its project by a hash and not by its folder."""
    root = project_hash(agent.project.resolve())
    chats = agent.home / ".gemini" / "tmp" / root / "chats"
    session = GeminiDocument().person("Fix it.").model("As [pat-001] says.")
    session.header["projectHash"] = root
    session.write(chats / "session-2026-10-02T10-00-g.json")


def test_agent_narrows_history(agent: Agent) -> None:
    codex_at(agent, "sessions", SESSION)
    (kept,) = agent.json("history", "--agent", "codex", "--dry-run")["agents"]
    assert (kept["agent"], kept["files"]) == ("codex", 1)


def test_unknown_agent_names_the_setting_readers(agent: Agent) -> None:
    told = agent.call("history", "--agent", "heron", code=2).err
    assert "'heron' is not one of claude, codex" in told
    assert "the setting `readers`" in told


def test_former_name_prints_the_new_one(agent: Agent) -> None:
    told = agent.call("import-history", code=2).err
    assert "`reflector import-history` is now `reflector history`" in told


def test_dry_run_shows_progress_on_old_sessions(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.call("history")
    monkeypatch.setattr("reflector.cli.output._FIRST_NOTE", 0)
    assert "reading new sessions: 1 so far" in agent.call("history", "--dry-run").err
