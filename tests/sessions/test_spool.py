"""The reading side of the spool: each delivery is in one place, and only settling ends it."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.sessions import locks, spool
from tests.hooks.conftest import Project, event, files


def test_deliveries_are_read_oldest_first_with_what_the_client_said(project: Project) -> None:
    transcript = project.path / "t.jsonl"
    transcript.write_text("12345")
    project.hook(event("SessionEnd", transcript_path=str(transcript), reason="clear"))
    project.hook(event("PreCompact", trigger="auto"))
    first, second = spool.pending(project.spool)
    assert first.received_at_ns < second.received_at_ns
    assert (first.event, first.reason, first.trigger) == ("SessionEnd", "clear", None)
    assert (first.transcript_path, first.transcript_bytes) == (str(transcript), 5)
    assert (first.project, first.session_id, first.agent_id) == (str(project.path), "s-1", None)
    assert (second.event, second.trigger, second.transcript_bytes) == ("PreCompact", "auto", None)


@pytest.mark.parametrize("name", ["SessionEnd", "Stop"])
def test_a_relative_path_of_a_transcript_begins_where_the_hook_ran(project: Project, name: str) -> None:
    (project.path / "sub").mkdir()
    (project.path / "sub/t.jsonl").write_text("12345")
    project.hook(event(name, transcript_path="t.jsonl"), cwd=project.path / "sub")
    (found,) = spool.pending(project.spool, "" if name == "SessionEnd" else "waiting")
    assert (found.transcript_path, found.transcript_bytes) == (str(project.path / "sub/t.jsonl"), 5)


def test_a_path_below_the_home_folder_is_not_taken_for_a_relative_one(project: Project) -> None:
    project.hook(event("SessionEnd", transcript_path="~/t.jsonl"))
    assert [found.transcript_path for found in spool.pending(project.spool)] == ["~/t.jsonl"]


def test_a_subagents_delivery_is_about_its_own_transcript(project: Project) -> None:
    project.hook(event("SubagentStop", agent_id="a-1", agent_transcript_path="/agent.jsonl"))
    project.hook(event("SubagentStop", agent_id="a-2"))
    own, none = spool.pending(project.spool)
    assert (own.transcript_path, own.agent_id) == ("/agent.jsonl", "a-1")
    assert none.transcript_path is None


@pytest.mark.parametrize("wrong", [None, 0, True, [], {}, "", "/\0", ["x"]])
def test_values_of_wrong_types_are_read_as_missing(project: Project, wrong: object) -> None:
    fields = ("session_id", "transcript_path", "agent_id", "reason", "trigger")
    project.hook(event("SessionEnd") | dict.fromkeys(fields, wrong))
    (delivery,) = spool.pending(project.spool)
    assert delivery.transcript_path is None
    assert (delivery.trigger, delivery.session_id) in ((None, None), ("/\0", "/\0"))
    assert delivery.payload["reason"] == wrong


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"v": "2", "payload": {}}', b'{"v": 1}', b"[" * 100_000, b"\xff"]
)
def test_a_record_that_cannot_be_read_is_set_aside_not_passed_over(project: Project, content: bytes) -> None:
    project.hook(event("SessionEnd"))
    (project.spool / "00000000000000000001-1-0.json").write_bytes(content)
    assert [delivery.event for delivery in spool.pending(project.spool)] == ["SessionEnd"]
    assert [path.read_bytes() for path in spool.broken(project.spool)] == [content]
    assert len(spool.pending(project.spool)) == 1


@pytest.mark.parametrize("part", ["", "waiting"])
@pytest.mark.parametrize("kind", ["a folder", "a link", "of another user"])
def test_a_record_that_may_not_be_read_is_set_aside_and_keeps_no_other_one_waiting(
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
    assert len(spool.pending(project.spool, part)) == 1
    (failure,) = spool.failed(project.spool)
    assert (failure.path.name, failure.error.startswith(f"{path}: ")) == (path.name, True)


@pytest.mark.parametrize("name", ["SessionEnd", "Stop"])
def test_a_record_of_a_newer_version_is_kept_and_comes_in_after_the_upgrade(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project.hook(event(name))
    (path,) = (path for path in files(project.spool) + files(project.spool / "waiting"))
    old = path.read_bytes()
    path.write_bytes(old.replace(b'"v":1', b'"v":2'))
    assert spool.pending(project.spool) == spool.pending(project.spool, "waiting") == spool.broken(project.spool) == []
    (failure,) = spool.failed(project.spool)
    assert "newer reflector" in failure.error
    spool.retry(project.spool)
    assert spool.pending(project.spool) == []
    failure.path.write_bytes(old)  # what the newer program can read
    monkeypatch.setattr(spool, "_FIRST_NS", 0)
    spool.retry(project.spool)
    assert [delivery.event for delivery in spool.pending(project.spool)] == [name]


def test_a_settled_delivery_is_gone(project: Project) -> None:
    project.hook(event("SessionEnd"))
    (delivery,) = spool.pending(project.spool)
    spool.settle(delivery)
    spool.settle(delivery)
    assert files(project.spool) == []


def test_a_failed_delivery_keeps_its_reasons_and_can_be_retried(project: Project) -> None:
    project.hook(event("SessionEnd"))
    (delivery,) = spool.pending(project.spool)
    content = delivery.path.read_bytes()
    assert spool.fail(delivery, OSError("disk on fire")).read_bytes() == content
    assert spool.pending(project.spool) == []
    (failure,) = spool.failed(project.spool)
    assert (failure.error, failure.attempts) == ("disk on fire", 1)

    spool.retry(project.spool, everything=True)
    (again,) = spool.pending(project.spool)
    assert again == delivery
    spool.fail(again, OSError("still burning"))
    assert [(failure.error, failure.attempts) for failure in spool.failed(project.spool)] == [("still burning", 2)]

    spool.retry(project.spool, everything=True)
    spool.settle(again)
    assert files(project.spool) == files(project.spool / "failed") == []


def test_a_stop_waits_until_it_is_claimed(project: Project) -> None:
    project.hook(event("Stop"))
    (stop,) = spool.pending(project.spool, "waiting")
    assert spool.pending(project.spool) == []
    claimed = spool.claim(stop)
    assert claimed is not None
    assert spool.pending(project.spool) == [claimed]
    assert claimed.payload == stop.payload
    assert spool.pending(project.spool, "waiting") == []
    assert spool.claim(stop) is None


def test_stops_wait_in_the_order_in_which_they_came_not_in_that_of_their_sessions(project: Project) -> None:
    for session in ("c", "a", "b"):
        project.hook(event("Stop", session_id=session))
    assert [delivery.session_id for delivery in spool.pending(project.spool, "waiting")] == ["c", "a", "b"]


def test_of_the_ends_without_a_word_the_newest_are_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_SILENT", 2)
    for session in ("a", "b", "c"):
        project.hook(event("SessionEnd", session_id=session))
    ends = spool.pending(project.spool)
    for delivery in ends:
        spool.keep_silent(delivery)
    assert [path.name for path in files(project.spool / "silent")] == [delivery.path.name for delivery in ends[1:]]


@pytest.mark.parametrize("end", [spool.settle, lambda delivery: spool.fail(delivery, OSError("no"))])
def test_a_stop_that_came_after_the_listing_is_not_ended_with_the_listed_one(
    project: Project, end: Callable[[spool.Delivery], object]
) -> None:
    project.hook(event("Stop", number=1))
    (stop,) = spool.pending(project.spool, "waiting")
    project.hook(event("Stop", number=2))
    end(stop)
    assert [delivery.payload["number"] for delivery in spool.pending(project.spool)] == [2]


def test_a_waiting_stop_can_be_settled_or_failed(project: Project) -> None:
    project.hook(event("Stop", session_id="a"))
    project.hook(event("Stop", session_id="b"))
    first, second = spool.pending(project.spool, "waiting")
    spool.settle(first)
    spool.fail(second, OSError("no"))
    assert spool.counts(project.spool) == spool.Counts(0, 0, 1, 0, 0, None)


def test_the_end_of_a_session_settles_its_older_stop_but_no_newer_or_other_one(project: Project) -> None:
    for session in ("ended", "resumed", "other"):
        project.hook(event("Stop", session_id=session))
    for session in ("ended", "resumed"):
        project.hook(event("SessionEnd", session_id=session))
    project.hook(event("Stop", session_id="resumed"))
    for delivery in spool.pending(project.spool):
        spool.settle(delivery)
    assert {delivery.session_id for delivery in spool.pending(project.spool, "waiting")} == {"resumed", "other"}


def test_the_counts_say_where_everything_lies(project: Project) -> None:
    assert spool.counts(project.spool) == spool.Counts(0, 0, 0, 0, 0, None)
    project.hook(event("SessionEnd"))
    project.hook(event("PreCompact"))
    project.hook(event("Stop"))
    project.hook(b"{")
    oldest, second = spool.pending(project.spool)
    spool.fail(second, OSError("no"))
    assert spool.counts(project.spool) == spool.Counts(1, 1, 1, 1, 0, int(oldest.path.name[:20]))


def test_a_payload_from_a_file_takes_the_same_road(project: Project) -> None:
    payload = event("Stop", n=1)
    delivery = spool.accept(project.path, json.dumps(payload).encode())
    project.hook(payload)
    (stop,) = spool.pending(project.spool, "waiting")
    assert [delivery] == spool.pending(project.spool)
    for name in ("project", "event", "session_id", "transcript_path", "payload"):
        assert getattr(delivery, name) == getattr(stop, name)


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"{}", b" " * (8 * 1024 * 1024 + 1)])
def test_a_broken_payload_from_a_file_is_an_error_and_leaves_nothing(project: Project, payload: bytes) -> None:
    with pytest.raises(ValueError, match="hook payload"):
        spool.accept(project.path, payload)
    assert not project.claude.exists()


def test_a_project_gets_back_what_was_kept_with_the_user_and_nobody_elses(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    project.state.parent.mkdir()
    project.state.write_text("")
    project.hook(event("SessionEnd", number=1))
    project.environ = {"CLAUDE_PROJECT_DIR": "/nowhere/else"}
    project.hook(event("SessionEnd", number=2))
    project.environ = {}
    project.state.unlink()
    project.hook(event("SessionEnd", number=3))
    assert [delivery.payload["number"] for delivery in spool.pending_for(project.path)] == [1, 3]


def _leave(project: Project, folder: str, content: bytes, age: float) -> Path:
    path = project.spool / folder / ".00000000000000000042-7-0.json.tmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


@pytest.mark.parametrize("folder", [".", "waiting"])
def test_a_whole_record_of_a_killed_hook_becomes_pending_after_an_hour(project: Project, folder: str) -> None:
    project.hook(event("SessionEnd"))
    (delivery,) = spool.pending(project.spool)
    left = _leave(project, folder, delivery.path.read_bytes(), 3599)
    spool.sweep(project.spool)
    assert left.exists()
    assert len(spool.pending(project.spool)) == 1
    spool.sweep(project.spool, now=time.time() + 60)
    assert not left.exists()
    assert len(spool.pending(project.spool)) == 2


@pytest.mark.parametrize("folder", [".", "waiting", "broken", "failed", ".."])
def test_half_a_record_of_a_killed_hook_is_removed_after_an_hour(project: Project, folder: str) -> None:
    project.hook(event("SessionEnd"))
    half = _leave(project, folder, b'{"v":1,"received_at_ns":1,"payload":{"session', 4000)
    spool.sweep(project.spool)
    assert not half.exists()
    assert len(spool.pending(project.spool)) == 1


def test_a_spool_that_is_a_symlink_is_neither_read_nor_swept(project: Project) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    (outside / "1.json").write_text("{}")
    old = outside / ".00000000000000000042-7-0.json.tmp"
    old.write_text("")
    os.utime(old, (0, 0))
    project.state.mkdir(parents=True)
    project.spool.symlink_to(outside)
    assert spool.pending(project.spool) == []
    spool.sweep(project.spool)
    assert {path.name for path in outside.iterdir()} == {"1.json", old.name}


def _hold(state: Path, held: multiprocessing.synchronize.Event, release: multiprocessing.synchronize.Event) -> None:
    with locks.held(state, "drain.lock", wait=True) as got:
        assert got
        held.set()
        release.wait(30)


def test_one_process_drains_at_a_time(project: Project) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(project.state, held, release))
    other.start()
    assert held.wait(30)
    with locks.held(project.state, "drain.lock", wait=False) as got:
        assert not got
    release.set()
    with locks.held(project.state, "drain.lock", wait=True) as got:
        assert got
    other.join(30)
    assert other.exitcode == 0


def test_the_lock_of_a_killed_drain_is_free(project: Project) -> None:
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(project.state, held, release))
    other.start()
    assert held.wait(30)
    other.kill()
    other.join(30)
    with locks.held(project.state, "drain.lock", wait=False) as got:
        assert got


def test_the_lock_does_not_follow_a_symlink(project: Project) -> None:
    victim = project.home / "victim"
    victim.write_text("mine")
    project.state.mkdir(parents=True)
    (project.state / "drain.lock").symlink_to(victim)
    with pytest.raises(OSError, match=r"drain\.lock"), locks.held(project.state, "drain.lock", wait=False):
        pass
    assert victim.read_text() == "mine"
