"""playbook.json edited by hand, broken, or caught in the middle of a write."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reflector import files
from reflector.files import Folder
from reflector.ledger.store import Ledger
from tests.road.agent import Agent
from tests.road.sessions import Session

PAT, MIS = "PATTERNS & APPROACHES", "MISTAKES TO AVOID"


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent whose playbook the ledger knows."""
    agent = Agent.in_folder(tmp_path)
    agent.call("drain")
    return agent


def document(agent: Agent) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(agent.playbook.read_bytes())
    return whole


def save(agent: Agent, whole: dict[str, Any]) -> bytes:
    """Write the file as an editor does, in its own layout."""
    agent.playbook.write_text(json.dumps(whole, indent=4, ensure_ascii=False), "utf-8")
    return agent.playbook.read_bytes()


def by_human(agent: Agent) -> list[tuple[str, dict[str, Any]]]:
    return [(event["type"], event["data"]) for event in agent.events() if event["actor"] == "human"]


def texts(agent: Agent) -> dict[str, str]:
    return {b["name"]: b["text"] for bullets in document(agent)["sections"].values() for b in bullets}


def helped(agent: Agent, name: str, id: str = "s-1") -> Path:
    return Session(id).cites(name).write(agent.home / f"{id}.jsonl")


def test_each_kind_of_edit_becomes_an_event_by_human(agent: Agent) -> None:
    whole = document(agent)
    pat, mis = whole["sections"][PAT], whole["sections"][MIS]
    pat[0]["text"] = "Write the failing test before the fix."
    pat[1]["helpful"] = 7
    moved = mis.pop()
    whole["sections"]["OTHERS"].append(moved)
    mis.append({"text": "Never skip hooks."})
    save(agent, whole)
    agent.call("drain")
    assert by_human(agent) == [
        ("bullet.revised", {"name": "pat-001", "text": "Write the failing test before the fix."}),
        ("bullet.recounted", {"name": "pat-002", "helpful": 7, "harmful": 1}),
        (
            "bullet.added",
            {
                "name": "mis-002",
                "section": "mis",
                "text": "Never skip hooks.",
                "helpful": 0,
                "harmful": 0,
                "origin": "playbook.json",
            },
        ),
        ("bullet.moved", {"name": "mis-001", "section": "oth"}),
    ]
    assert agent.counters() == {"pat-001": (0, 0), "pat-002": (7, 1), "mis-002": (0, 0), "mis-001": (0, 0)}
    assert texts(agent)["mis-002"] == "Never skip hooks."


def test_a_removed_entry_is_a_removal(agent: Agent) -> None:
    whole = document(agent)
    del whole["sections"][PAT][1]
    save(agent, whole)
    agent.call("drain")
    assert by_human(agent) == [("bullet.removed", {"name": "pat-002", "reason": "deleted", "into": None})]
    assert agent.json("list", "--all")[1]["status"] == "removed"


def test_counts_that_came_meanwhile_survive_an_edit(agent: Agent) -> None:
    whole = document(agent)
    agent.call("ingest", helped(agent, "pat-001"), helped(agent, "pat-002", "s-2"))
    # Somebody had the file open in an editor since before.
    whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
    save(agent, whole)
    agent.call("drain")
    assert texts(agent)["pat-001"] == "Write the failing test before the fix."


def test_an_edit_and_a_session_that_come_together_are_both_taken_in(agent: Agent) -> None:
    agent.hook("SessionEnd", session_id="s-1", transcript_path=str(helped(agent, "pat-001")))
    whole = document(agent)
    whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
    whole["sections"][PAT][1]["helpful"] = 9
    save(agent, whole)
    agent.call("drain")
    assert agent.counters() == {"pat-001": (1, 0), "pat-002": (9, 1), "mis-001": (0, 0)}
    assert texts(agent)["pat-001"] == "Write the failing test before the fix."


def test_a_layout_that_an_editor_changed_is_no_edit(agent: Agent) -> None:
    ours = agent.playbook.read_bytes()
    save(agent, document(agent))
    agent.call("drain")
    assert by_human(agent) == []
    assert agent.playbook.read_bytes() == ours


def test_a_count_set_by_hand_is_where_counting_goes_on_from(agent: Agent) -> None:
    agent.call("ingest", helped(agent, "pat-001"))
    whole = document(agent)
    whole["sections"][PAT][0].update(helpful=0, harmful=5)
    save(agent, whole)
    agent.call("ingest", helped(agent, "pat-001", "s-2"))
    assert agent.counters()["pat-001"] == (1, 5)
    assert [step["disposition"] for step in agent.json("blame", "pat-001")] == ["recounted", "baseline", "counted"]
    assert agent.call("verify").out == ""


def test_an_edit_that_cannot_be_taken_in_is_left_with_each_entry_named_while_the_ledger_goes_on(agent: Agent) -> None:
    whole = document(agent)
    whole["sections"][PAT][0]["helpful"] = -1
    whole["sections"][PAT][1]["text"] = ""
    whole["sections"][MIS].append({"name": "xyz", "text": "Fine."})
    edited = save(agent, whole)
    for command in (["list"], ["drain"], ["add", "pat", "More."], ["ingest", str(helped(agent, "pat-001"))]):
        told = agent.call(*command).err
        assert str(agent.playbook) in told
        for entry in ("pat-001", "pat-002", "xyz"):
            assert entry in told
    start = agent.hook("SessionStart", session_id="s-2")
    assert "[pat-001] helpful=1 harmful=0" in start
    assert "helpful is negative" in start
    assert agent.playbook.read_bytes() == edited
    agent.call("rebuild")
    assert agent.counters()["pat-001"] == (1, 0)
    assert [event["type"] for event in agent.events() if event["actor"] == "human"] == ["bullet.added"]


def test_a_deleted_file_is_written_again(agent: Agent) -> None:
    ours = agent.playbook.read_bytes()
    agent.playbook.unlink()
    agent.call("drain")
    assert agent.playbook.read_bytes() == ours
    assert by_human(agent) == []


def test_a_link_is_neither_read_nor_written_through(agent: Agent, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "playbook.json"
    real.parent.mkdir()
    agent.playbook.rename(real)
    before = real.read_bytes()
    agent.playbook.symlink_to(real)
    told = agent.call("ingest", helped(agent, "pat-001"), code=1).err
    assert f"{agent.playbook}: is a link" in told
    assert "--project" in told
    assert (agent.playbook.is_symlink(), real.read_bytes()) == (True, before)


def test_a_name_that_a_removed_bullet_had_is_not_taken_over(agent: Agent) -> None:
    whole = document(agent)
    del whole["sections"][PAT][0]
    save(agent, whole)
    agent.call("drain")
    whole = document(agent)
    whole["sections"][PAT].append({"name": "pat-001", "text": "Something else.", "helpful": 4, "harmful": 0})
    save(agent, whole)
    agent.call("drain")
    assert texts(agent)["pat-003"] == "Something else."
    assert "pat-001" not in texts(agent)


@pytest.mark.parametrize("command", ["drain", "list"])
def test_a_bullet_that_is_reworded_where_it_was_not_removed_yet_comes_back_with_its_counts(
    agent: Agent, command: str
) -> None:
    agent.call("ingest", helped(agent, "pat-001"))
    whole = document(agent)
    edited = document(agent)
    del edited["sections"][PAT][0]
    save(agent, edited)
    agent.call("drain")
    # Another branch was checked out, or somebody had the file open in an editor since before.
    whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
    save(agent, whole)
    for _ in range(2):
        agent.call(command)
    agent.call("drain")
    assert texts(agent)["pat-003"] == "Write the failing test before the fix."
    assert agent.counters() == {"pat-003": (1, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert [type_ for type_, _ in by_human(agent)] == ["bullet.removed", "bullet.added"]


def test_a_file_whose_name_means_another_bullet_is_reported_and_not_told(agent: Agent) -> None:
    agent.call("ingest", helped(agent, "pat-001"))
    other = Agent(agent.project.parent / "other", agent.home)
    other.claude.mkdir(parents=True)
    other.write_playbook({PAT: [{"name": "pat-001", "text": "Something else."}]})
    (agent.home / ".config/reflector").mkdir(parents=True)
    (agent.home / ".config/reflector/config.toml").write_text(f'ledger_url = "sqlite:///{agent.ledger}"\n')
    mine = other.playbook.read_bytes()
    assert other.json("list") == agent.json("list")
    assert "Something else." not in other.hook("SessionStart", session_id="s-2")
    for command in ("status", "doctor"):
        assert "the name means another bullet in this ledger" in other.call(command, code=1).out
    assert other.playbook.read_bytes() == mine


def test_two_rebuilds_give_the_same_bytes(agent: Agent) -> None:
    agent.call("ingest", helped(agent, "pat-001"), helped(agent, "pat-002", "s-2"))
    files = [agent.playbook.read_bytes()]
    for _ in range(2):
        agent.call("rebuild")
        files.append(agent.playbook.read_bytes())
        agent.playbook.unlink()
    assert len(set(files)) == 1
    agent.call("rebuild")
    assert agent.call("rebuild", "--check").out == ""


def test_last_updated_is_the_time_of_the_last_event_that_changed_a_bullet(agent: Agent) -> None:
    imported = document(agent)["last_updated"]
    assert imported == agent.events("playbook.imported")[0]["recorded_at"]
    written = agent.playbook.stat()
    agent.call("ingest", Session("s-0").user("Hello.").agent("Hello.").write(agent.home / "s-0.jsonl"))
    agent.counted("pat-001", None, id="s-9")
    assert document(agent)["last_updated"] == imported
    assert (agent.playbook.stat().st_mtime_ns, agent.playbook.stat().st_ino) == (written.st_mtime_ns, written.st_ino)
    agent.call("ingest", helped(agent, "pat-001"))
    assert document(agent)["last_updated"] == agent.events("bullet.tagged")[-1]["recorded_at"] > imported


LEGACY: dict[str, tuple[dict[str, Any], dict[str, tuple[int, int]]]] = {
    "bare texts": ({"key_points": ["always use type hints"]}, {"kpt_001": (0, 0)}),
    "a score": (
        {"key_points": [{"name": "kpt_004", "text": "a", "score": -3}, {"name": "kpt_002", "text": "b", "score": 2}]},
        {"kpt_004": (0, 3), "kpt_002": (2, 0)},
    ),
    "counters beside a score": (
        {"key_points": [{"name": "kpt_001", "text": "a", "helpful": 3, "harmful": 1, "score": 2}]},
        {"kpt_001": (3, 1)},
    ),
    "sections in lower case": (
        {"sections": {" mistakes to avoid ": [{"name": "mis-002", "text": "a", "helpful": 1}], "odd": ["b"]}},
        {"mis-002": (1, 0), "oth-001": (0, 0)},
    ),
}


@pytest.mark.parametrize("shape", LEGACY)
@pytest.mark.parametrize("how", ["found", "imported"])
def test_every_legacy_shape_is_adopted_as_a_baseline(tmp_path: Path, shape: str, how: str) -> None:
    old, expected = LEGACY[shape]
    agent = Agent.in_folder(tmp_path, {})
    if how == "found":
        agent.playbook.write_text(json.dumps(old))
        agent.call("drain")
    else:
        agent.playbook.unlink()
        (tmp_path / "old.json").write_text(json.dumps(old))
        for _ in range(2):
            agent.call("import", tmp_path / "old.json")
    assert agent.counters() == expected
    assert [event["type"] for event in agent.events()] == ["playbook.imported"]
    (kept,) = (agent.state / "kept").iterdir()
    assert json.loads(kept.read_bytes()) == old


def test_an_import_that_means_another_bullet_by_a_name_is_refused_with_the_imported_files_name(
    agent: Agent, tmp_path: Path
) -> None:
    other = tmp_path / "theirs.json"
    other.write_text(json.dumps({"sections": {PAT: [{"name": "pat-001", "text": "Something else."}]}}))
    refused = agent.call("import", other, code=1)
    assert str(other) in refused.err
    assert "pat-001" in refused.err
    assert str(agent.playbook) not in refused.err


#: Whose method a write dies in, and whether it dies before the method has done anything.
STEPS: dict[str, tuple[type, str, bool]] = {
    "before the rename": (Folder, "replace", True),
    "after the rename": (Folder, "replace", False),
    "after the checkpoint": (Ledger, "set_checkpoint", False),
}


def killed(agent: Agent, step: str, *arguments: str | Path) -> None:
    """Run a command in a process that ends at a step of its write, as if it was killed there."""
    owner, name, before = STEPS[step]
    really = getattr(owner, name)

    def dying(*given: Any) -> Any:
        if given[-1] in (".gitignore", "injection.txt"):
            return really(*given)
        if not before:
            really(*given)
        os._exit(137)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the test runner has threads; none of them holds a lock
        child = os.fork()
    if child == 0:
        setattr(owner, name, dying)
        with suppress(BaseException):
            agent.call(*arguments, code=None)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137


@pytest.mark.parametrize("step", STEPS)
def test_a_write_that_was_killed_is_not_mistaken_for_an_edit(agent: Agent, step: str) -> None:
    killed(agent, step, "ingest", helped(agent, "pat-001"))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert by_human(agent) == []
    assert {path.name for path in agent.claude.iterdir()} == {"playbook.json", "reflector"}


@pytest.mark.parametrize("step", STEPS)
def test_an_edit_made_after_a_killed_write_is_what_the_person_changed_and_no_more(agent: Agent, step: str) -> None:
    killed(agent, step, "ingest", helped(agent, "pat-001"))
    whole = document(agent)
    whole["sections"][PAT][1]["text"] = "Keep functions short."
    save(agent, whole)
    agent.call("drain")
    assert by_human(agent) == [("bullet.revised", {"name": "pat-002", "text": "Keep functions short."})]
    assert agent.counters()["pat-001"] == (1, 0)


@pytest.mark.parametrize("step", STEPS)
def test_an_edit_whose_taking_in_was_killed_is_taken_in_once(agent: Agent, step: str) -> None:
    whole = document(agent)
    whole["sections"][PAT].append({"text": "New, without a name."})
    whole["sections"][MIS].append({"name": "mis-007", "text": "New, with a name.", "helpful": 2, "harmful": 0})
    whole["sections"][PAT][0]["helpful"] = 3
    save(agent, whole)
    killed(agent, step, "drain")
    agent.call("drain")
    agent.call("drain")
    assert agent.counters() == {
        "pat-001": (3, 0),
        "pat-002": (3, 1),
        "pat-003": (0, 0),
        "mis-001": (0, 0),
        "mis-007": (2, 0),
    }
    assert len(by_human(agent)) == 3


def meanwhile(monkeypatch: pytest.MonkeyPatch, path: Path, happens: Callable[[], Any]) -> None:
    """Let something happen when a file is about to be written for the next time."""
    really, left = files.put, [happens]

    def writing(folder: Folder, temporary: str, name: str, *rest: Any) -> None:
        if name == path.name and left:
            left.pop()()
        really(folder, temporary, name, *rest)

    monkeypatch.setattr(files, "put", writing)


@pytest.mark.parametrize("had", ["a session", "a session and an edit"])
def test_an_edit_that_is_saved_while_the_file_is_written_is_kept_and_taken_in(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, had: str
) -> None:
    whole = document(agent)
    edits = [("bullet.revised", {"name": "pat-002", "text": "Keep functions short."})]
    if had != "a session":
        whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
        edits.insert(0, ("bullet.revised", {"name": "pat-001", "text": "Write the failing test before the fix."}))
        save(agent, whole)
    whole["sections"][PAT][1]["text"] = "Keep functions short."
    meanwhile(monkeypatch, agent.playbook, lambda: save(agent, whole))
    agent.call("ingest", helped(agent, "pat-001"))
    agent.call("drain")
    assert by_human(agent) == edits
    assert texts(agent)["pat-002"] == "Keep functions short."
    assert agent.counters()["pat-001"] == (1, 0)
    assert agent.call("rebuild", "--check").out == ""


def test_a_file_that_is_deleted_while_it_is_written_is_written_again(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, agent.playbook, agent.playbook.unlink)
    agent.call("ingest", helped(agent, "pat-001"))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)


def test_the_first_adoption_that_was_killed_is_finished_by_the_next_command(tmp_path: Path) -> None:
    for step in STEPS:
        agent = Agent.in_folder(tmp_path / step.replace(" ", "-"))
        agent.write_playbook({PAT: [{"name": "pat-001", "text": "Old."}, "Without a name."]})
        killed(agent, step, "drain")
        agent.call("drain")
        assert len(agent.counters()) == 2, step
        whole = document(agent)
        whole["sections"][PAT][0]["text"] = "Edited."
        save(agent, whole)
        agent.call("drain")
        assert texts(agent)["pat-001"] == "Edited.", step
        assert len(agent.events("playbook.imported")) == 1


def test_the_file_keeps_its_permissions_and_what_is_kept_aside_is_private(agent: Agent) -> None:
    agent.playbook.chmod(0o640)
    agent.call("ingest", helped(agent, "pat-001"))
    assert agent.playbook.stat().st_mode & 0o777 == 0o640
    assert all(path.stat().st_mode & 0o077 == 0 for path in (agent.state / "kept").iterdir())
    assert agent.state.stat().st_mode & 0o077 == 0


def test_a_file_that_a_new_ledger_cannot_adopt_is_not_said_to_be_written_anew_from_it(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.playbook.write_text('[{"name": "pat-001", "text": "Run the tests."}]')
    for command in ("rebuild", "list"):
        ran = agent.call(command, code=1)
        assert "correct it there" in ran.err
        assert "reflector rebuild" not in ran.err


# A look at every name for each new one would take minutes, which the timeout of every test ends.
def test_many_texts_that_a_person_adds_at_once_are_named_in_linear_time(agent: Agent) -> None:
    whole = document(agent)
    whole["sections"]["OTHERS"] = [f"advice number {number}" for number in range(16_000)]
    save(agent, whole)
    agent.call("drain")
    assert texts(agent)["oth-16000"] == "advice number 15999"
