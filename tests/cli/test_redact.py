"""A secret is erased by a command, wherever reflector wrote it down."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.curation.erasure import echoes, erase, planned
from reflector.curation.proposals import propose
from reflector.ledger import engines, lock
from reflector.ledger.errors import LedgerLocked
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.sessions import spool
from tests.ledger.events import added
from tests.processes import REFLECTOR, Popen
from tests.road.agent import Agent
from tests.road.sessions import Session

SECRET = "the customer is Erika Mustermann of Köln"


@pytest.fixture
def told(agent: Agent, tmp_path: Path) -> Agent:
    """A playbook with the secret in a bullet of its own, in an imported one and in a reflection."""
    agent.playbook.write_text(agent.playbook.read_text().replace("Keep functions small.", f"Keep {SECRET} small."))
    session = Session("s-1").cites("pat-001", None)
    session.user(f"No, that is wrong, {SECRET}. Please revert it.").agent("You are right.")
    agent.call("ingest", session.write(tmp_path / "1.jsonl"))
    agent.call("add", "ctx", f"Remember that {SECRET}!")
    return agent


def holding(agent: Agent) -> list[str]:
    """Every file of the project in which the secret stands."""
    forms = [SECRET.encode(), SECRET.replace("ö", "\\u00f6").encode()]
    files = [path for path in agent.project.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if any(form in path.read_bytes() for form in forms))


def position(agent: Agent, type_: str) -> str:
    return str(agent.events(type_)[-1]["position"])


def _reader(path: Path) -> Any:
    # Of the ledger's own SQLite: two copies of the library in one process do not see each other's locks.
    return engines.sqlite_module().connect(path, isolation_level=None)


def test_no_file_of_the_project_holds_the_text_when_all_that_was_named_is_redacted(told: Agent) -> None:
    assert {"ledger.db", "playbook.json", "injection.txt"} <= set(holding(told))
    assert any(name.startswith("playbook-") for name in holding(told))
    counters = told.counters()
    todo, done = [position(told, "bullet.added")], set[str]()
    while todo:
        at = todo.pop()
        if at in done:
            continue
        done.add(at)
        bullets = ["--bullet", "pat-002"] if at == "1" else []
        ran = told.call("redact", at, *bullets, "--why", "names a customer", "--yes")
        todo += [line.split()[1] for line in ran.err.splitlines() if line.startswith("position ")]
        todo += [p for p in ("1", position(told, "reflection.completed")) if p not in done]
    assert holding(told) == []
    assert told.counters() == counters
    assert "customer is" not in told.call("export", "--format", "ndjson").out
    assert [b["text"] for b in told.json("list") if b["name"] in ("pat-002", "ctx-001")] == ["[redacted]"] * 2
    assert told.call("verify").out == told.call("rebuild", "--check").out == ""
    assert "Write the failing test first." in told.hook("SessionStart", source="startup")


def test_a_file_in_which_it_still_stands_is_named(told: Agent) -> None:
    told.call("redact", position(told, "bullet.added"), "--why", "names a customer", "--yes")
    (told.claude / "notes.md").write_text(f"Remember that {SECRET}!")
    with Ledger.open_file(told.ledger) as ledger:
        assert ledger.bullets()[-1].text == "[redacted]"
    told.call("add", "ctx", f"Remember that {SECRET}!")
    ran = told.call("redact", position(told, "bullet.added"), "--why", "names a customer", "--yes")
    assert "notes.md" in ran.err


def test_where_more_events_say_the_same_than_are_named_their_number_and_the_way_to_all_of_them_are_told(
    told: Agent, tmp_path: Path
) -> None:
    for number in range(2, 18):
        session = Session(f"s-{number}").cites("pat-001", None)
        session.user(f"No, that is wrong, {SECRET}. Please revert it.").agent("You are right.")
        session.write(tmp_path / f"{number}.jsonl")
    told.call("ingest", *(tmp_path / f"{number}.jsonl" for number in range(2, 18)))
    lines = told.call("redact", position(told, "reflection.answered"), "--why", "a customer", "--yes").err.splitlines()
    named = [line for line in lines if line.startswith("position ")]
    total = len(told.json("redact", "--where", SECRET)["events"])
    (rest,) = [line for line in lines if line.startswith("and ")]
    assert len(named) < total
    assert int(rest.split()[1]) >= 4
    assert "`reflector redact --where TEXT` lists all events that hold a text, and erases it" in rest


def test_the_answer_that_an_analysis_was_read_from_is_named(told: Agent) -> None:
    at = position(told, "reflection.completed")
    answer = position(told, "reflection.answered")
    assert f"reflector redact {answer}" in told.call("redact", at, "--why", "a customer", "--yes").err
    assert f"reflector redact {at}" not in told.call("redact", answer, "--why", "a customer", "--yes").err
    (step,) = told.json("blame", "pat-001")
    assert (step["harmful"], step["counted"]) == (1, True)


def test_what_holds_no_prose_or_a_reason_that_repeats_it_is_refused(told: Agent) -> None:
    tag, added_ = position(told, "bullet.tagged"), position(told, "bullet.added")
    assert "holds no text of its own" in told.call("redact", tag, "--why", "x", "--yes", code=1).err
    reason = f"it says: Remember that {SECRET}!"
    assert "repeats the text" in told.call("redact", added_, "--why", reason, "--yes", code=1).err
    assert "did not come with" in told.call("redact", "1", "--bullet", "oth-9", "--why", "x", "--yes", code=1).err
    assert "only a playbook.imported" in told.call("redact", tag, "--bullet", "x", "--why", "x", "--yes", code=1).err
    assert "many events" in told.call("redact", "s-1", "--why", "x", "--yes", code=2).err
    assert told.events("event.redacted") == []


@pytest.mark.parametrize(("answer", "erased"), [("n", False), ("y", True)])
def test_on_a_terminal_it_asks_first(told: Agent, answer: str, erased: bool) -> None:
    at = position(told, "bullet.added")
    master, slave = pty.openpty()
    command = [*REFLECTOR, "redact", at, "--why", "a customer"]
    process = Popen(
        command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=told.env(), cwd=told.project
    )
    os.close(slave)
    os.write(master, f"{answer}\n".encode())
    _, err = process.communicate(timeout=60)
    os.close(master)
    assert SECRET in err.decode()
    assert (process.returncode, bool(told.events("event.redacted"))) == (0 if erased else 1, erased)


def test_a_reader_that_keeps_the_old_content_in_the_file_is_told_of_and_a_second_call_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "BUSY_TIMEOUT_MS", 100)
    path = tmp_path / "ledger.db"
    with Ledger.open_file(path) as ledger, closing(_reader(path)) as reader:
        ledger.append([added("pat-001", SECRET)])
        (event,) = ledger.events()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        with pytest.raises(LedgerLocked, match="run the same command again"):
            erase(ledger, planned(event), "a customer")
        reader.execute("COMMIT")
        (event, _) = ledger.events()
        (event, _) = ledger.events()
        again = planned(event)
        (answer,) = erase(ledger, again, "a customer")
        assert (again.texts, answer.position, answer.added) == ((), 2, False)
        assert not [p for p in tmp_path.iterdir() if p.is_file() and SECRET.encode() in p.read_bytes()]


def test_events_that_say_the_very_same_are_found_however_it_is_quoted(tmp_path: Path) -> None:
    text = 'He said "no\\yes"\nand left Köln'
    with Ledger.open_file(tmp_path / "ledger.db") as ledger:
        ledger.append([added("pat-001", text), added("pat-002", "Something else"), added("pat-003", f"So: {text}")])
        (first, _, third) = ledger.events()
        assert [event.position for event in echoes(ledger, planned(first))] == [3]
        assert echoes(ledger, planned(third)) == []


def test_an_older_playbook_json_that_comes_back_does_not_bring_the_text_back(told: Agent) -> None:
    older = told.playbook.read_text()
    told.call("redact", position(told, "bullet.added"), "--why", "a customer", "--yes")
    told.call("redact", "1", "--bullet", "pat-002", "--why", "a customer", "--yes")
    redacted = told.playbook.read_text()
    told.playbook.write_text(older)
    told.call("drain")
    assert told.playbook.read_text() == redacted
    assert told.events("bullet.revised") == []
    told.playbook.write_text(older.replace(f"Keep {SECRET} small.", "Keep it small."))
    told.call("drain")
    assert [event["data"]["text"] for event in told.events("bullet.revised")] == ["Keep it small."]


def test_a_text_is_found_wherever_it_stands_shown_first_and_erased_as_one_operation(told: Agent) -> None:
    counters = told.counters()
    shown = told.call("redact", "--where", SECRET, "--why", "names a customer", code=2)
    assert "add --yes" in shown.err
    assert all(type_ in shown.out for type_ in ("playbook.imported", "bullet.added", "reflection.completed"))
    found = told.json("redact", "--where", SECRET)
    assert {event["type"] for event in found["events"]} >= {"playbook.imported", "bullet.added", "reflection.answered"}
    assert [Path(path).parent.name for path in found["copies"]] == ["kept"]
    assert found["redacted_at"] == told.events("event.redacted") == []
    erased = told.json("redact", "--where", SECRET, "--why", "names a customer", "--yes")
    assert len(erased["redacted_at"]) == len(found["events"])
    assert holding(told) == []
    assert told.counters() == counters
    assert {event["data"]["reason"] for event in told.events("event.redacted")} == {"names a customer"}
    assert {b["name"] for b in told.json("list") if b["text"] == "[redacted]"} == {"pat-002", "ctx-001"}
    assert told.call("verify").out == told.call("rebuild", "--check").out == ""
    assert "Nothing holds this text" in told.call("redact", "--where", SECRET, "--why", "again", "--yes").err


def test_a_proposal_is_found_by_its_text_and_erased(told: Agent) -> None:
    with Ledger.open_file(told.ledger) as ledger:
        change = Change("add", section="pat", text="Ask Zebraquux first.")
        propose(ledger, change, origin="agent", trust="agent", reason="seen with Zebraquux", actor="agent")
    told.call("redact", "--where", "Zebraquux", "--why", "a codename", "--yes")
    assert b"Zebraquux" not in told.ledger.read_bytes()
    assert told.json("proposals", "--all") == []
    assert told.call("verify").out == ""


def test_another_file_that_holds_the_text_is_named_and_left(told: Agent) -> None:
    notes = told.claude / "notes.md"
    notes.write_text(f"Remember that {SECRET}!")
    assert "notes.md" in told.call("redact", "--where", SECRET, "--why", "a customer", "--yes").err
    assert notes.exists()


@pytest.mark.parametrize("event", ["SessionEnd", "Stop"])
def test_a_session_that_waits_to_be_taken_in_loses_the_text_and_is_counted(
    told: Agent, tmp_path: Path, event: str
) -> None:
    transcript = Session("s-9").cites("pat-001").write(tmp_path / "9.jsonl")
    told.hook(event, session_id="s-9", transcript_path=str(transcript), last_assistant_message=SECRET)
    helpful, harmful = told.counters()["pat-001"]
    ran = told.call("redact", "--where", SECRET, "--why", "a customer", "--yes")
    assert "1 waiting session kept without the text" in ran.out
    assert holding(told) == []
    for waiting in (told.spool / "waiting").glob("*.json"):
        spool.claim(spool.pending(told.spool, "waiting")[0])
        assert not waiting.exists()
    told.call("drain")
    assert told.counters()["pat-001"] == (helpful + 1, harmful)


def test_a_delivery_that_cannot_be_read_and_holds_the_text_goes(told: Agent) -> None:
    waiting = told.claude / "reflector" / "spool" / "waiting" / "s-9.json"
    waiting.parent.mkdir(parents=True, exist_ok=True)
    waiting.write_text('{"prompt": "Zebraquux"}')
    ran = told.call("redact", "--where", "Zebraquux", "--why", "a codename", "--yes")
    assert "s-9.json" in ran.out
    assert not waiting.exists()


def test_what_stands_outside_of_prose_is_told_of_and_stays(told: Agent) -> None:
    found = told.json("redact", "--where", "pat-001")
    assert told.events("bullet.tagged")[0]["position"] in found["stays"]


def test_a_search_that_cannot_be_meant_is_refused(told: Agent) -> None:
    assert "too short" in told.call("redact", "--where", "a", "--why", "x", "--yes", code=1).err
    assert "name an event" in told.call("redact", "--why", "x", code=2).err
    assert "name an event" in told.call("redact", "1", "--where", SECRET, "--why", "x", code=2).err
    assert "repeats the text" in told.call("redact", "--where", SECRET, "--why", SECRET, "--yes", code=1).err
    assert "give a reason with --why" in told.call("redact", "--where", SECRET, "--yes", code=2).err


def test_a_second_text_of_an_import_is_erased_by_its_name(told: Agent) -> None:
    for name in ("pat-002", "pat-001"):
        told.call("redact", "1", "--bullet", name, "--why", "a customer", "--yes")
    assert {b["name"] for b in told.json("list") if b["text"] == "[redacted]"} == {"pat-001", "pat-002"}
    assert b"Write the failing test first." not in told.ledger.read_bytes()
    assert told.call("verify").out == ""
