"""Taking transcripts in: each record once, whatever it comes by."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import unpack_keys
from reflector.ledger.store import Ledger
from reflector.sessions.intake import Source, Taken, take_in
from reflector.transcripts.reading import UnknownTranscript
from tests.road.sessions import Session, as_bytes


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open_file(tmp_path / "ledger.db") as opened:
        yield opened


def taken(ledger: Ledger, path: Path, **fields: Any) -> Taken:
    window = fields.pop("window", "new")
    return take_in(ledger, Source(path, fields.pop("trigger", "SessionEnd"), **fields), window=window)


def windows(ledger: Ledger) -> list[dict[str, Any]]:
    return [dict(event.data or {}) for event in ledger.events(types=[ev.SESSION_RECORDED])]


def add_bullets(ledger: Ledger, *names: str) -> None:
    for name in names:
        data = {"name": name, "section": "pat", "text": f"Advice {name}.", "helpful": 0, "harmful": 0, "origin": "cli"}
        ledger.append([NewEvent(ev.BULLET_ADDED, identity(ev.BULLET_ADDED, name), data, "human")])


def test_a_transcript_is_recorded_with_its_identity_and_what_it_cites(ledger: Ledger, tmp_path: Path) -> None:
    add_bullets(ledger, "pat-001", "pat-002")
    removed = {"name": "pat-002", "reason": "deleted", "into": None}
    ledger.append([NewEvent(ev.BULLET_REMOVED, identity(ev.BULLET_REMOVED, "x"), removed, "human")])
    path = Session("s-1").agent("[pat-002] and [pat-009] and [pat-001] and [pat-001]").write(tmp_path / "t.jsonl")
    found = taken(ledger, path, session_id="s-1", reason="logout")
    (data,) = windows(ledger)
    assert (data["cited"], data["retired"], data["unknown"]) == (["pat-001"], ["pat-002"], ["pat-009"])
    assert found.cited == ("pat-001",)
    assert data["transcript"]["path"] == str(path)
    assert data["transcript"]["bytes"] == path.stat().st_size
    assert (data["trigger"], data["reason"], data["client"]) == ("SessionEnd", "logout", "2.1.200")
    assert len(unpack_keys(data["window"]["keys"])) == data["window"]["records"] == 1


def test_a_windows_identity_is_its_agents_session_subagent_mode_and_records(ledger: Ledger, tmp_path: Path) -> None:
    path = Session("s-1").cites("pat-001").write(tmp_path / "t.jsonl")
    found = taken(ledger, path, session_id="s-1", agent_id="a-1")
    keys = windows(ledger)[0]["window"]["keys"]
    parts = ("claude-code", "s-1", "a-1", "new", sha256(keys.encode()).hexdigest())
    assert found.event_id == identity(ev.SESSION_RECORDED, *parts)


def test_a_second_intake_appends_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    assert taken(ledger, path).records == 4
    head = ledger.head()
    again = taken(ledger, path, trigger="ingest", session_id="another", agent_id="a-1")
    assert (again.event_id, again.records) == (None, 0)
    assert ledger.head() == head


def test_a_later_window_holds_only_what_is_new(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().cites("pat-001")
    taken(ledger, session.write(tmp_path / "t.jsonl"))
    found = taken(ledger, session.agent("One more, after [pat-002].").write(tmp_path / "t.jsonl"))
    assert found.records == 1
    first, second = windows(ledger)
    assert not set(unpack_keys(first["window"]["keys"])) & set(unpack_keys(second["window"]["keys"]))
    assert second["unknown"] == ["pat-002"]


def test_a_fork_under_a_new_session_id_adds_only_its_new_records(ledger: Ledger, tmp_path: Path) -> None:
    original = Session("s-1").cites("pat-001")
    taken(ledger, original.write(tmp_path / "1.jsonl"))
    fork = original.fork("s-2")
    assert taken(ledger, fork.write(tmp_path / "2.jsonl")).event_id is None
    found = taken(ledger, fork.agent("On we go.").write(tmp_path / "2.jsonl"))
    assert (found.session_id, found.records) == ("s-2", 1)


def test_what_lies_behind_the_limit_is_a_later_windows(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().user("Hello.").agent("Hello.")
    path = session.write(tmp_path / "t.jsonl")
    limit = path.stat().st_size
    session.user("And now?").write(path)
    assert taken(ledger, path, limit=limit).records == 2
    assert taken(ledger, path).records == 1


def test_a_line_that_is_still_being_written_is_left_for_the_next_window(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().user("Hello.").agent("As [pat-001] says.")
    whole = as_bytes(session.records)
    path = tmp_path / "t.jsonl"
    path.write_bytes(whole[:-30])
    assert taken(ledger, path).records == 1
    assert windows(ledger)[0]["unread"]["unfinished_bytes"] > 0
    path.write_bytes(whole)
    assert taken(ledger, path).records == 1
    assert windows(ledger)[1]["unknown"] == ["pat-001"]


def test_the_whole_transcript_is_a_window_of_its_own_and_one_only(ledger: Ledger, tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    copy = Session().cites("pat-001").write(tmp_path / "copy.jsonl")
    assert taken(ledger, path).records == 4
    assert taken(ledger, path, window="whole").records == 4
    assert taken(ledger, path, window="whole").event_id is None
    assert taken(ledger, copy, window="whole", trigger="ingest").event_id is None
    assert [data["window"]["mode"] for data in windows(ledger)] == ["new", "whole"]


def test_a_rival_that_takes_the_same_window_in_meanwhile_is_no_error(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Session().cites("pat-001").write(tmp_path / "mine.jsonl")
    taken(ledger, Session().cites("pat-001").write(tmp_path / "rival.jsonl"))
    really = ledger.seen
    answers = iter([set()])
    monkeypatch.setattr(ledger, "seen", lambda keys: next(answers, None) or really(keys))
    assert taken(ledger, path).event_id is None
    assert len(windows(ledger)) == 1


def test_the_session_is_named_by_the_hook_else_by_the_file(ledger: Ledger, tmp_path: Path) -> None:
    assert taken(ledger, Session("in-file").user("1").write(tmp_path / "1.jsonl")).session_id == "in-file"
    assert (
        taken(ledger, Session("x").user("2").write(tmp_path / "2.jsonl"), session_id="by-hook").session_id == "by-hook"
    )


@pytest.mark.parametrize("hostile", ["a\nb", "x" * 5000, "nul\0", "\ud800", "\x1b[31m", "tab\t"])
def test_a_hostile_session_id_is_kept_as_a_digest(ledger: Ledger, tmp_path: Path, hostile: str) -> None:
    found = taken(ledger, Session().user("Hello.").write(tmp_path / "t.jsonl"), session_id=hostile, agent_id=hostile)
    assert found.session_id.startswith("invalid-")
    assert len(found.session_id) < 50
    assert [event.session_id for event in ledger.events()] == [found.session_id]


def test_any_file_name_that_a_system_allows_is_stored(ledger: Ledger, tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xffb\nc\x1b[31m.jsonl")
    taken(ledger, Session().user("Hello.").write(tmp_path / name))
    path = windows(ledger)[0]["transcript"]["path"]
    path.encode()
    assert "\n" not in path


def test_what_the_reader_does_not_know_is_counted_in_the_event(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().user("Hello.")
    odd = [{"type": "hologram", "uuid": "h-1"}, {"type": "hologram", "uuid": "h-2"}]
    path = tmp_path / "t.jsonl"
    path.write_bytes(as_bytes(session.records) + as_bytes(odd) + b'{"broken\n')
    taken(ledger, path)
    unread = windows(ledger)[0]["unread"]
    assert unread["unknown_types"] == {"hologram": 2}
    assert unread["malformed"] == 1


def test_a_secret_in_the_names_that_a_client_gives_is_not_stored(ledger: Ledger, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    records = [record | {"version": secret} for record in Session().user("Hello.").records]
    path = tmp_path / "t.jsonl"
    path.write_bytes(as_bytes([*records, {"type": secret, "uuid": "h-1"}]))
    taken(ledger, path)
    window = windows(ledger)[0]
    assert window["unread"]["unknown_types"] == {"[redacted:github-token]": 1}
    assert window["client"] == "[redacted:github-token]"


def test_only_the_models_own_words_cite(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().user("Use [pat-001].").runs("cat playbook.json", "[pat-002] helpful=0 harmful=0 :: x")
    session.agent("```\n[pat-003]\n```\nSee [pat-004](docs/x.md).")
    assert taken(ledger, session.write(tmp_path / "t.jsonl")).cited == ()
    assert windows(ledger)[0]["unknown"] == []


def test_a_file_that_is_no_transcript_is_refused_and_nothing_is_appended(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    for content in (b"", b"hello\n", b"\x00\xff" * 100, b'{"a": 1}\n', b"[]\n"):
        path.write_bytes(content)
        with pytest.raises(UnknownTranscript, match=r"t\.jsonl"):
            taken(ledger, path)
    with pytest.raises(FileNotFoundError):
        taken(ledger, tmp_path / "missing.jsonl")
    with pytest.raises(OSError, match="director"):
        taken(ledger, tmp_path)
    assert ledger.head().position == 0


def test_the_same_sessions_give_the_same_events(tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    ids = []
    for _ in range(2):
        with Ledger.open("sqlite://") as ledger:
            taken(ledger, path)
            ids.append([(event.event_id, event.data_hash, event.occurred_at) for event in ledger.events()])
    assert ids[0] == ids[1]
    assert ids[0][0][2] == "2026-11-01T00:03:00.000Z"


@pytest.mark.parametrize("said", ["1790000002000", "1790010112000", "yesterday", "2026-11-01", "2026-11-01T00:03:00Z"])
def test_an_event_happened_at_an_iso_time_or_when_it_was_recorded(ledger: Ledger, tmp_path: Path, said: str) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    path.write_text(re.sub(r'"timestamp": ?"[^"]*"', f'"timestamp": "{said}"', path.read_text("utf-8")), "utf-8")
    taken(ledger, path)
    (event,) = ledger.events()
    assert event.occurred_at == (said if said.startswith("2026") else event.recorded_at)
