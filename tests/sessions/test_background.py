"""The drain that a hook starts does what the command does, and loads less."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from reflector import project as ours
from reflector.hooks import fast
from reflector.sessions import locks, spool
from reflector.sessions.drain import drain
from reflector.sessions.spool import counts
from tests.hooks.conftest import Project, event

CHECKOUT = Path(fast.__file__).parents[2]
RECORD = {
    "parentUuid": None,
    "type": "user",
    "message": {"role": "user", "content": "Fix the parser."},
    "uuid": "00000000-0000-4000-8000-000000000001",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "sessionId": "s",
}


def background(project: Project, *options: str) -> tuple[int, str]:
    """Exit code and stderr."""
    command = [sys.executable, *options, "-m", "reflector", "--project", str(project.path), "drain", "--background"]
    process = project.start(command, cwd=CHECKOUT)
    out, err = process.communicate(timeout=60)
    assert out == b""
    return process.returncode, err.decode()


def deliver(project: Project, transcript: Path) -> None:
    project.hook(event("SessionEnd", cwd=str(project.path), transcript_path=str(transcript)))
    assert counts(project.spool).pending == 1


def test_it_takes_the_spool_in_without_the_command_line(project: Project, tmp_path: Path) -> None:
    transcript = tmp_path / "session.jsonl"
    transcript.write_text(json.dumps(RECORD) + "\n")
    deliver(project, transcript)
    code, err = background(project, "-X", "importtime")
    assert code == 0
    assert counts(project.spool).pending == 0
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}
    assert "reflector.ledger.append" in loaded  # the list is a list
    unwanted = ("click", "alembic.command", "anthropic", "pydantic", "rich", "sqlalchemy.dialects.postgresql")
    first_use = {"alembic.command"}  # makes the ledger
    assert loaded & set(unwanted) - first_use <= {"sqlalchemy.dialects.postgresql"}  # of alembic
    deliver(project, transcript)
    code, err = background(project, "-X", "importtime")
    loaded = {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}
    assert (code, loaded & set(unwanted)) == (0, set())


def test_a_delivery_that_cannot_be_taken_in_is_kept_and_the_exit_code_tells(project: Project, tmp_path: Path) -> None:
    transcript = tmp_path / "missing.jsonl"
    transcript.write_text(json.dumps(RECORD) + "\n")
    deliver(project, transcript)
    transcript.unlink()
    assert background(project) == (1, "")
    assert counts(project.spool).failed == 1


def test_a_file_that_is_not_a_delivery_is_kept_and_the_exit_code_tells(project: Project) -> None:
    project.spool.mkdir(mode=0o700, parents=True)
    (project.spool / "00000000000000000001-1-1.json").write_bytes(b"{")
    assert background(project) == (1, "")
    assert counts(project.spool).broken == 1
    assert background(project) == (0, "")


def test_a_drain_that_leaves_the_rest_to_another_still_tells_what_it_set_aside(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    project.spool.mkdir(mode=0o700, parents=True)
    (project.spool / "00000000000000000001-1-1.json").write_bytes(b"{")
    transcript = tmp_path / "session.jsonl"
    transcript.write_text(json.dumps(RECORD) + "\n")
    looks = spool.ready_for
    with ExitStack() as other:

        def meanwhile(root: Path) -> list[spool.Delivery]:
            """Between the lock let go and the next look, a session ends and another process takes the lock."""
            deliver(project, transcript)
            assert other.enter_context(locks.held(project.state, "drain.lock", wait=False))
            return looks(root)

        monkeypatch.setattr(spool, "ready_for", meanwhile)
        done = drain(ours.Project.at(project.path))
    assert done is not None
    assert len(done.broken) == 1


def test_a_drain_names_no_failure_of_another_project_in_the_users_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    project.claude.mkdir(exist_ok=True)
    looks = spool.pending_for

    def meanwhile(root: Path, aside: spool.Aside | None) -> list[spool.Delivery]:
        """A delivery of another project, which is kept with the user, fails in the drain of that project; one that
        cannot be read as a delivery may be anybody's."""
        project.environ = {"CLAUDE_PROJECT_DIR": "/nowhere/else"}
        project.hook(event("SessionEnd"))
        for delivery in spool.pending(project.fallback):
            spool.fail(delivery, ValueError("not a transcript"))
        (project.fallback / "00000000000000000001-1-1.json").write_bytes(b'{"v": 2}')
        monkeypatch.setattr(spool, "pending_for", looks)
        return looks(root, aside)

    monkeypatch.setattr(spool, "pending_for", meanwhile)
    done = drain(ours.Project.at(project.path))
    assert done is not None
    assert counts(project.fallback).failed == 2
    assert [Path(path).name for path, _ in done.failed] == ["00000000000000000001-1-1.json"]


def test_an_error_has_the_commands_words_and_exit_code(project: Project, tmp_path: Path) -> None:
    deliver(project, tmp_path / "missing.jsonl")
    project.environ["REFLECTOR_BACKEND"] = "nobody"
    code, err = background(project)
    assert code == 2
    assert "nobody" in err
    assert "Traceback" not in err
    assert counts(project.spool).pending == 1
