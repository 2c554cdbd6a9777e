"""Taking transcripts in: each record once, whatever it comes by."""

import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from reflector.events import event as ev
from reflector.events.event import identity
from reflector.events.fields import unpack_keys
from reflector.ledger.store import Ledger
from reflector.sessions.intake import Source, Taken, take_in
from tests.building import add_bullets
from tests.ledger.events import changed
from tests.reading import windows
from tests.road.sessions import Session, as_bytes


def taken(ledger: Ledger, path: Path, **fields: Any) -> Taken:
    window = fields.pop("window", "new")
    return take_in(
        ledger, Source(path, fields.pop("trigger", "SessionEnd"), **fields), window=window
    )


def test_transcript_is_recorded_with_identity_and_citations(ledger: Ledger, tmp_path: Path) -> None:
    add_bullets(ledger, "pat-001", "pat-002")
    ledger.append([changed(ev.BULLET_REMOVED, "pat-002", reason="deleted", into=None)])
    path = (
        Session("s-1")
        .agent("[pat-002] and [pat-009] and [pat-001] and [pat-001]")
        .write(tmp_path / "t.jsonl")
    )
    found = taken(ledger, path, session_id="s-1", reason="logout")
    (data,) = windows(ledger)
    assert (data["cited"], data["retired"], data["unknown"]) == (
        ["pat-001"],
        ["pat-002"],
        ["pat-009"],
    )
    assert found.cited == ("pat-001",)
    assert data["transcript"]["path"] == str(path)
    assert data["transcript"]["bytes"] == path.stat().st_size
    assert (data["trigger"], data["reason"], data["client"]) == ("SessionEnd", "logout", "2.1.200")
    assert len(unpack_keys(data["window"]["keys"])) == data["window"]["records"] == 1


def test_objections_of_the_agent_are_recorded_once(ledger: Ledger, tmp_path: Path) -> None:
    add_bullets(ledger, "pat-001", "pat-002")
    key = "ghp_" + "A1b2" * 9
    session = Session("s-1").agent(
        f"[pat-001 wrong: {key} {'is old ' * 90}] [pat-009 wrong: x] [pat-002]"
    )
    for _ in range(2):
        taken(ledger, session.write(tmp_path / "t.jsonl"), session_id="s-1")
        session.agent("[pat-002 wrong] and [pat-001]")
    first, second = windows(ledger)
    assert [(one["name"], key in one["why"], len(one["why"]) > 200) for one in first["said"]] == [
        ("pat-001", False, False)
    ]
    assert second["said"] == [{"name": "pat-002", "why": ""}]


def test_window_identity_has_agent_session_mode_and_records(ledger: Ledger, tmp_path: Path) -> None:
    path = Session("in-file").cites("pat-001").write(tmp_path / "t.jsonl")
    found = taken(ledger, path, session_id="by-hook", agent_id="a-1")
    keys = windows(ledger)[0]["window"]["keys"]
    parts = ("claude-code", "by-hook", "a-1", "new", sha256(keys.encode()).hexdigest())
    assert found.event_id == identity(ev.SESSION_RECORDED, *parts)
    assert taken(ledger, Session("in-file").user("2").write(path)).session_id == "in-file"


def test_unfinished_records_belong_to_a_later_window(ledger: Ledger, tmp_path: Path) -> None:
    session = Session().user("Hello.").agent("As [pat-001] says.").agent("Or [pat-002].")
    path = session.write(tmp_path / "t.jsonl")
    first = len(as_bytes(session.records[:1]))
    assert taken(ledger, path, limit=first).records == 1
    path.write_bytes(as_bytes(session.records)[:-30])
    assert taken(ledger, path).records == 1
    path.write_bytes(as_bytes(session.records))
    assert taken(ledger, path).records == 1
    found = windows(ledger)
    assert found[1]["unread"]["unfinished_bytes"] > 0
    assert [one["unknown"] for one in found] == [[], ["pat-001"], ["pat-002"]]
    assert len({key for one in found for key in unpack_keys(one["window"]["keys"])}) == 3


def test_whole_transcript_is_one_window_of_its_own(ledger: Ledger, tmp_path: Path) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    copy = Session().cites("pat-001").write(tmp_path / "copy.jsonl")
    assert taken(ledger, path).records == 4
    again = taken(ledger, path, trigger="ingest", session_id="another", agent_id="a-1")
    assert (again.event_id, again.records) == (None, 0)
    assert taken(ledger, path, window="whole").records == 4
    assert taken(ledger, path, window="whole").event_id is None
    assert taken(ledger, copy, window="whole", trigger="ingest").event_id is None
    assert [data["window"]["mode"] for data in windows(ledger)] == ["new", "whole"]


def test_a_rival_of_a_window_is_no_error(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Session().cites("pat-001").write(tmp_path / "mine.jsonl")
    taken(ledger, Session().cites("pat-001").write(tmp_path / "rival.jsonl"))
    really = ledger.seen
    answers = iter([set()])
    monkeypatch.setattr(ledger, "seen", lambda keys: next(answers, None) or really(keys))
    assert taken(ledger, path).event_id is None
    assert len(windows(ledger)) == 1


@pytest.mark.parametrize("hostile", ["a\nb", "x" * 5000, "nul\0", "\ud800", "\x1b[31m", "tab\t"])
def test_hostile_session_id_is_kept_as_a_digest(
    ledger: Ledger, tmp_path: Path, hostile: str
) -> None:
    found = taken(
        ledger,
        Session().user("Hello.").write(tmp_path / "t.jsonl"),
        session_id=hostile,
        agent_id=hostile,
    )
    assert found.session_id.startswith("invalid-")
    assert len(found.session_id) < 50
    assert [event.session_id for event in ledger.events()] == [found.session_id]


def test_unknown_records_are_counted_without_a_secret(ledger: Ledger, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    records = [record | {"version": secret} for record in Session().user("Hello.").records]
    odd = [
        {"type": kind, "uuid": f"h-{number}"}
        for number, kind in enumerate(["hologram", "hologram", secret])
    ]
    path = tmp_path / os.fsdecode(b"a\xffb\nc\x1b[31m.jsonl")  # any name that a system allows
    path.write_bytes(as_bytes([*records, *odd]) + b'{"broken\n')
    taken(ledger, path)
    (window,) = windows(ledger)
    assert window["unread"]["unknown_types"] == {"hologram": 2, "[redacted:github-token]": 1}
    assert (window["unread"]["malformed"], window["client"]) == (1, "[redacted:github-token]")
    assert b"\n" not in window["transcript"]["path"].encode()


NO_TIMES = [
    "",
    "1790000002000",
    "yesterday",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-10:00",
]


@pytest.mark.parametrize("said", [*NO_TIMES, "2026-11-01", "2026-11-01T00:03:00Z"])
def test_event_time_is_iso_or_the_recording(ledger: Ledger, tmp_path: Path, said: str) -> None:
    path = Session().cites("pat-001").write(tmp_path / "t.jsonl")
    path.write_text(
        re.sub(r'"timestamp": ?"[^"]*"', f'"timestamp": "{said}"', path.read_text("utf-8")), "utf-8"
    )
    taken(ledger, path)
    event, _ = ledger.events()
    assert event.occurred_at == (said if said.startswith("2026") else event.recorded_at)
