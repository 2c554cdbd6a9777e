"""A secret is erased by a command, wherever reflector wrote it down."""

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from reflector.changes.erase import erase, event_erasure
from reflector.ledger import engines, sqlite_file
from reflector.ledger.errors import LedgerLocked
from reflector.ledger.store import Ledger
from reflector.sessions import spool
from tests.conftest import first_fast
from tests.ledger.events import added
from tests.road.agent import Agent
from tests.road.sessions import Session

SECRET = "the customer is Erika Mustermann of Köln"


@pytest.fixture
def told(agent: Agent, tmp_path: Path) -> Agent:
    """A playbook with the secret in a bullet of its own, in an imported one and in a reflection."""
    agent.playbook.write_text(
        agent.playbook.read_text().replace("Keep functions small.", f"Keep {SECRET} small.")
    )
    session = Session("s-1").cites("pat-001", None)
    session.user(f"No, that is wrong, {SECRET}. Please revert it.").agent(
        f"You are right. [pat-001 wrong: {SECRET}]"
    )
    agent.call("ingest", session.write(tmp_path / "1.jsonl"))
    agent.call("add", "ctx", f"Remember that {SECRET}!")
    return agent


def holding(agent: Agent) -> list[str]:
    """Every file of the project, and of what is kept of it at home, in which the secret stands."""
    forms = [SECRET.encode(), SECRET.replace("ö", "\\u00f6").encode()]
    files = [
        path
        for folder in (agent.project, agent.home)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    return sorted(path.name for path in files if any(form in path.read_bytes() for form in forms))


def position(agent: Agent, type_: str) -> str:
    return str(agent.events(type_)[-1]["position"])


def _reader(path: Path) -> Any:
    # Of the ledger's own SQLite: two copies of the library in one process do not see each other's
    # locks.
    return engines.sqlite_module().connect(path, isolation_level=None)


def test_answer_behind_an_analysis_is_named(told: Agent) -> None:
    at = position(told, "reflection.completed")
    answer = position(told, "reflection.answered")
    assert (
        f"reflector redact {answer}" in told.call("redact", at, "--why", "a customer", "--yes").err
    )
    assert (
        f"reflector redact {at}"
        not in told.call("redact", answer, "--why", "a customer", "--yes").err
    )


def test_vague_erasure_or_revealing_reason_is_refused(
    told: Agent,
) -> None:
    tag, added_ = position(told, "bullet.tagged"), position(told, "bullet.added")
    for what, reason, code, wanted in (
        ([tag], "x", 1, "contains no text"),
        ([added_], f"it says: Remember that {SECRET}!", 1, "contains the text to erase"),
        (
            ["s-1"],
            "x",
            2,
            "to erase all of its text: `reflector redact --session s-1 --why REASON`",
        ),
        (["--where", "a"], "x", 1, "too short"),
        ([], "x", 2, "redact needs exactly one of"),
        (["1", "--where", SECRET], "x", 2, "redact needs exactly one of"),
        (["--where", SECRET], SECRET, 1, "contains the text to erase"),
    ):
        assert wanted in told.call("redact", *what, "--why", reason, "--yes", code=code).err
    assert told.events("event.redacted") == []


def test_session_is_erased_and_its_transcript_named(told: Agent, tmp_path: Path) -> None:
    counters = told.counters()
    assert (
        f"(the agent said that the rule was wrong: {SECRET})" in told.call("blame", "pat-001").out
    )
    ran = told.call("redact", "--session", "s-1", "--why", "a customer", "--yes")
    assert f"remove the text from the transcript yourself: {tmp_path / '1.jsonl'}\n" in ran.err
    assert "events erased" in ran.out
    assert not any(
        SECRET in json.dumps(event, ensure_ascii=False) for event in told.json("log", "s-1")
    )
    assert "\n  said wrong  pat-001 [redacted]\n" in told.call("show", "s-1").out
    assert told.counters() == counters
    assert told.call("verify").out == told.call("rebuild", "--check").out == ""


def test_redact_lists_the_session_with_an_erased_text(told: Agent) -> None:
    told.call("add", "ctx", SECRET)
    said = told.call("redact", position(told, "bullet.added"), "--why", "a customer", "--yes").err
    session = position(told, "session.recorded")
    assert f"position {session} (session.recorded) contains all or part of the text" in said


@pytest.mark.slow
def test_proposal_that_repeats_an_erased_session_is_named(told: Agent, tmp_path: Path) -> None:
    session = Session("s-2").user("Always tell Jane Doe at the bank before you deploy.")
    told.call("ingest", session.agent("I will.").write(tmp_path / "2.jsonl"))
    (proposed,) = told.events("change.proposed")
    said = told.call("redact", "--session", "s-2", "--why", "a customer", "--yes").err
    assert (
        f"position {proposed['position']} (change.proposed) contains all or part of the text"
        in said
    )
    told.call("redact", str(proposed["position"]), "--why", "a customer", "--yes")
    assert "Jane" not in told.call("export", "--format", "ndjson").out


def test_text_from_stdin_needs_a_reason(told: Agent) -> None:
    assert told.call("redact", "--where", SECRET, code=2).out == ""
    told.call("redact", "--where", "-", "--why", "a customer", "--yes", typed=f"{SECRET}\n")
    assert holding(told) == []


def test_terminal_shows_the_text_and_asks_first(told: Agent) -> None:
    shown = told.sent(
        80, "redact", position(told, "bullet.added"), "--why", "a customer", typed=b"y\n"
    )
    assert SECRET in " ".join(shown.split())
    assert len(told.events("event.redacted")) == 1


def test_reader_of_old_content_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_MS", 100)
    path = tmp_path / "ledger.db"
    with Ledger.open_file(path) as ledger, closing(_reader(path)) as reader:
        ledger.append([added("pat-001", SECRET)])
        (event,) = ledger.events()
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        with pytest.raises(LedgerLocked, match="run the same command again"):
            erase(ledger, event_erasure(event), "a customer")
        reader.execute("COMMIT")
        (event, _) = ledger.events()
        again = event_erasure(event)
        (answer,) = erase(ledger, again, "a customer")
        assert (again.texts, answer.position, answer.added) == ((), 2, False)
        assert not [
            p for p in tmp_path.iterdir() if p.is_file() and SECRET.encode() in p.read_bytes()
        ]


def test_text_is_shown_and_erased_wherever_it_is(
    told: Agent,
) -> None:
    counters = told.counters()
    assert {"ledger.db", "playbook.json", "injection.txt", "events.ndjson"} <= set(holding(told))
    shown = told.call("redact", "--where", SECRET, "--why", "names a customer", code=2)
    assert "add --yes" in shown.err
    types = ("playbook.imported", "bullet.added", "reflection.answered", "reflection.completed")
    assert all(type_ in shown.out for type_ in types)
    found = set(re.findall(r"^ *(\d+) ", shown.out, re.M))
    assert "kept/" in shown.out
    assert told.events("event.redacted") == []
    told.call("redact", "--where", SECRET, "--why", "names a customer", "--yes")
    assert holding(told) == []
    assert len(told.events("event.redacted")) == len(found) > 3
    assert told.counters() == counters
    assert {b["name"] for b in told.json("list") if b["text"] == "[redacted]"} == {
        "pat-002",
        "ctx-001",
    }
    assert told.call("verify").out == told.call("rebuild", "--check").out == ""
    assert "customer is" not in told.call("export", "--format", "ndjson").out
    assert (
        "No event or file contains this text"
        in told.call("redact", "--where", SECRET, "--why", "again", "--yes").err
    )


def test_other_holders_are_named_and_unreadable_deliveries_removed(
    told: Agent,
) -> None:
    notes = told.claude / "notes.md"
    notes.write_text(f"Remember that {SECRET}!")
    unread = told.spool / "waiting" / "s-9.json"
    unread.parent.mkdir(parents=True, exist_ok=True)
    unread.write_text(json.dumps({"prompt": SECRET}, ensure_ascii=False))
    ran = told.call("redact", "--where", SECRET, "--why", "a customer", "--yes")
    assert ("notes.md" in ran.err, notes.exists()) == (True, True)
    assert ("s-9.json" in ran.out, unread.exists()) == (True, False)
    shown = told.call("redact", "--where", "pat-001", "--why", "x", code=2).out
    tagged = told.events("bullet.tagged")[0]["position"]
    assert f"{tagged} bullet.tagged in a part of the event" in " ".join(shown.split())


@pytest.mark.parametrize("event", first_fast(1, ["SessionEnd", "Stop"]))
def test_waiting_session_loses_the_text_and_counts(told: Agent, tmp_path: Path, event: str) -> None:
    transcript = Session("s-9").cites("pat-001").write(tmp_path / "9.jsonl")
    told.hook(
        event, session_id="s-9", transcript_path=str(transcript), last_assistant_message=SECRET
    )
    helpful, harmful = told.counters()["pat-001"]
    ran = told.call("redact", "--where", SECRET, "--why", "a customer", "--yes")
    assert "text in 1 waiting session erased" in ran.out
    assert holding(told) == []
    for waiting in (told.spool / "waiting").glob("*.json"):
        spool.claim(spool.pending(told.spool, "waiting")[0])
        assert not waiting.exists()
    told.call("drain")
    assert told.counters()["pat-001"] == (helpful + 1, harmful)


def test_redact_names_the_copy_it_cannot_rewrite(told: Agent) -> None:
    (told.own / ".events.ndjson.tmp").mkdir()  # nothing can be written there, not even by root
    redact = ("redact", "--where", SECRET, "--why", "a customer", "--yes")
    for _ in range(2):
        ran = told.call(*redact, code=1)
        assert f"the text is still in {told.own / 'events.ndjson'}" in ran.err
        assert "reflector could not rewrite the copy of the ledger" in ran.err
    assert f"make {told.own} writable" in told.call("doctor", code=None).out
    (told.own / ".events.ndjson.tmp").rmdir()
    told.call(*redact)
    assert holding(told) == []


def test_redact_of_one_event_fails_without_its_copy(told: Agent) -> None:
    (told.own / ".events.ndjson.tmp").mkdir()
    assert (
        "could not rewrite the copy"
        in told.call(
            "redact", position(told, "bullet.added"), "--why", "a customer", "--yes", code=1
        ).err
    )


def test_a_file_that_agents_read_is_named(told: Agent) -> None:
    told.call("mirror", "AGENTS.md")
    agents = told.project / "AGENTS.md"
    agents.write_text(agents.read_text().replace("reflector:begin", "reflector:broken"))
    ran = told.call("redact", "--where", SECRET, "--why", "a customer", "--yes")
    assert f"the text is still in {agents}" in ran.err


def test_rules_kept_with_the_ledger_lose_the_text(told: Agent, tmp_path: Path) -> None:
    told.call("ingest", Session("s-2").cites("pat-001").write(tmp_path / "2.jsonl"))
    assert "rules.json" in holding(told)
    told.call("redact", "--where", SECRET, "--why", "names a customer", "--yes")
    assert holding(told) == []
