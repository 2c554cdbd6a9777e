"""The reading side of the spool: each delivery is in one place, and only settling ends it."""

import os
import time
from functools import partial

import pytest

from reflector.sessions import spool
from tests.hooks.conftest import Project, event, files

#: As a drain reads them, which sets aside what cannot be read.
pending = partial(spool.pending, aside=[])


def test_deliveries_are_read_oldest_first(project: Project) -> None:
    transcript = project.path / "t.jsonl"
    transcript.write_text("12345")
    project.hook(event("SessionEnd", transcript_path=str(transcript), reason="clear"))
    project.hook(event("PreCompact", trigger="auto"))
    first, second = pending(project.spool)
    assert first.received_at_ns < second.received_at_ns
    assert (first.event, first.reason) == ("SessionEnd", "clear")
    assert (first.transcript_path, first.transcript_bytes) == (str(transcript), 5)
    assert (first.project, first.session_id, first.agent_id) == (str(project.path), "s-1", None)
    assert (second.event, second.reason, second.transcript_bytes) == ("PreCompact", "auto", None)


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"transcript_path": "t.jsonl"}, ("{}/sub/t.jsonl", 5)),  # begins where the hook ran
        ({"hook_event_name": "Stop", "transcript_path": "t.jsonl"}, ("{}/sub/t.jsonl", 5)),
        ({"transcript_path": "~/t.jsonl"}, ("~/t.jsonl", None)),
        (
            {"hook_event_name": "SubagentStop", "agent_transcript_path": "/agent.jsonl"},
            ("/agent.jsonl", None),
        ),
        ({"hook_event_name": "SubagentStop", "transcript_path": "t.jsonl"}, (None, None)),
        (
            {"hook_event_name": "SubagentStop", "agent_transcript_path": "t.jsonl"},
            ("{}/sub/t.jsonl", 5),
        ),
    ],
)
def test_delivery_names_its_own_transcript(
    project: Project, fields: dict[str, str], read: tuple[str | None, int | None]
) -> None:
    (project.path / "sub").mkdir()
    (project.path / "sub/t.jsonl").write_text("12345")
    project.hook(event("SessionEnd") | fields, cwd=project.path / "sub")
    (found,) = pending(project.spool) + pending(project.spool, "waiting")
    path, size = read
    assert (found.transcript_path, found.transcript_bytes) == (
        path and path.format(project.path),
        size,
    )


@pytest.mark.parametrize("wrong", [None, 0, True, [["x"]], {}, "", "/\0", "\ud800", "x" * 9_999])
def test_wrong_values_are_kept_and_read_as_missing(project: Project, wrong: object) -> None:
    fields = (
        "session_id",
        "transcript_path",
        "agent_transcript_path",
        "cwd",
        "agent_id",
        "reason",
        "trigger",
    )
    assert project.hook(event("SessionEnd") | dict.fromkeys(fields, wrong)) == (b"", b"")
    (delivery,) = pending(project.spool)
    text = wrong if isinstance(wrong, str) and wrong else None
    assert delivery.transcript_path == (
        str(project.path / text) if text and text[0] == "x" else None
    )
    assert delivery.reason == delivery.session_id == text
    assert delivery.payload["reason"] == wrong


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"v": "2", "payload": {}}', b'{"v": 1}', b"[" * 100_000, b"\xff"],
)
def test_unreadable_record_is_set_aside(project: Project, content: bytes) -> None:
    project.hook(event("SessionEnd"))
    (project.spool / "00000000000000000001-1-0.json").write_bytes(content)
    assert [delivery.event for delivery in pending(project.spool)] == ["SessionEnd"]
    assert [
        (project.spool / "broken" / name).read_bytes()
        for name in spool.look_into(project.spool).broken
    ] == [content]
    assert len(pending(project.spool)) == 1


@pytest.mark.parametrize("part", ["", "waiting"])
@pytest.mark.parametrize("kind", ["a folder", "a link", "of another user"])
def test_forbidden_record_is_set_aside_without_delay(
    project: Project, kind: str, part: str
) -> None:
    project.hook(event("Stop" if part else "SessionEnd"))
    path = project.spool / part / "00000000000000000001-1-0.json"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a link":
        path.symlink_to("/dev/null")
    else:
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        path.touch(0)
    assert len(pending(project.spool, part)) == 1
    (failure,) = spool.failed_deliveries(project.spool)
    assert (failure.path.name, failure.error.startswith(f"{path}: ")) == (path.name, True)


def test_newest_silent_ends_are_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_SILENT", 2)
    for session in ("a", "b", "c"):
        project.hook(event("SessionEnd", session_id=session))
    ends = pending(project.spool)
    for delivery in ends:
        spool.keep_silent(delivery)
    assert [path.name for path in files(project.spool / "silent")] == [
        delivery.path.name for delivery in ends[1:]
    ]


@pytest.mark.parametrize("name", ["SessionEnd", "Stop"])
def test_newer_record_is_kept_until_the_upgrade(project: Project, name: str) -> None:
    project.hook(event(name))
    (path,) = files(project.spool) + files(project.spool / "waiting")
    old = path.read_bytes()
    path.write_bytes(old.replace(b'"v":1', b'"v":2'))
    assert (
        pending(project.spool)
        == pending(project.spool, "waiting")
        == spool.look_into(project.spool).broken
        == []
    )
    (failure,) = spool.failed_deliveries(project.spool)
    assert "newer reflector" in failure.error
    spool.retry(project.spool)  # its pause is not over
    assert pending(project.spool) == []
    failure.path.write_bytes(old)  # what the newer program can read
    spool.retry(project.spool, everything=True)
    assert [delivery.event for delivery in pending(project.spool)] == [name]


def test_failed_delivery_keeps_its_reasons_and_is_retried(project: Project) -> None:
    project.hook(event("SessionEnd"))
    (delivery,) = pending(project.spool)
    content = delivery.path.read_bytes()
    for attempts, said in enumerate(("disk on fire", "still burning"), 1):
        assert (
            spool.fail(delivery.path, delivery.path.parent, OSError(said)).read_bytes() == content
        )
        assert pending(project.spool) == []
        assert [
            (failure.error, failure.attempts) for failure in spool.failed_deliveries(project.spool)
        ] == [(said, attempts)]
        spool.retry(project.spool, everything=True)
        assert pending(project.spool) == [delivery]
    for _ in range(2):
        spool.settle_delivery(delivery)
    assert files(project.spool) == files(project.spool / "failed") == []


def test_stops_wait_in_order_until_each_is_claimed(project: Project) -> None:
    assert spool.look_into(project.spool) == spool.Spool(0, 0, 0, 0, [], [], 0, None)
    for session in ("c", "a", "b"):
        project.hook(event("Stop", session_id=session))
    project.hook(b"{")
    stops = pending(project.spool, "waiting")
    assert [delivery.session_id for delivery in stops] == ["c", "a", "b"]
    assert pending(project.spool) == []
    claimed = spool.claim(stops[0])
    assert (pending(project.spool), claimed.payload) == ([claimed], stops[0].payload)
    assert spool.claim(stops[0]) is None
    (broken,) = spool.look_into(project.spool).broken
    assert spool.look_into(project.spool) == spool.Spool(
        1, 2, 0, 0, [], [broken], 0, int(claimed.path.name[:20])
    )


def test_stop_during_a_settlement_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.hook(event("Stop", number=1))
    project.hook(event("SessionEnd"))
    (end,) = pending(project.spool)
    claim = spool.claim

    def meanwhile(stop: spool.Delivery) -> spool.Delivery | None:
        project.hook(event("Stop", number=2))
        return claim(stop)

    monkeypatch.setattr(spool, "claim", meanwhile)
    spool.settle_delivery(end)
    assert [delivery.payload.get("number") for delivery in pending(project.spool)] == [2]


def test_session_end_settles_only_its_older_stop(
    project: Project,
) -> None:
    for session in ("ended", "resumed", "other"):
        project.hook(event("Stop", session_id=session))
    for session in ("ended", "resumed"):
        project.hook(event("SessionEnd", session_id=session))
    project.hook(event("Stop", session_id="resumed"))
    for delivery in pending(project.spool):
        spool.settle_delivery(delivery)
    assert {delivery.session_id for delivery in pending(project.spool, "waiting")} == {
        "resumed",
        "other",
    }


def test_project_gets_back_only_its_own_deliveries(project: Project) -> None:
    project.state.parent.mkdir()
    project.state.write_text("")
    project.hook(event("SessionEnd", number=1))
    project.environ = {"CLAUDE_PROJECT_DIR": "/nowhere/else"}
    project.hook(event("SessionEnd", number=2))
    project.environ = {}
    project.state.unlink()
    project.hook(event("SessionEnd", number=3))
    assert [delivery.payload["number"] for delivery in spool.pending_for(project.path)] == [1, 3]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("folder", [".", "waiting", "broken", "failed", ".."])
def test_rest_of_a_killed_hook_is_swept_hourly(
    project: Project, folder: str, is_whole: bool
) -> None:
    """A whole record becomes pending, half of one is removed."""
    project.hook(event("SessionEnd"))
    (delivery,) = pending(project.spool)
    left = project.spool / folder / ".00000000000000000042-7-0.json.tmp"
    left.parent.mkdir(parents=True, exist_ok=True)
    whole = delivery.path.read_bytes()
    left.write_bytes(whole if is_whole else whole[:40])
    for age, is_left in ((3500, True), (3601, False)):
        os.utime(left, (0, time.time() - age))
        spool.sweep_spool(project.spool)
        assert left.exists() == is_left
    assert len(pending(project.spool)) == 1 + (is_whole and folder in (".", "waiting"))


def test_symlinked_spool_is_neither_read_nor_swept(project: Project) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    (outside / "1.json").write_text("{}")
    old = outside / ".00000000000000000042-7-0.json.tmp"
    old.write_text("")
    os.utime(old, (0, 0))
    project.state.mkdir(parents=True)
    project.spool.symlink_to(outside)
    assert pending(project.spool) == []
    spool.sweep_spool(project.spool)
    assert {path.name for path in outside.iterdir()} == {"1.json", old.name}
