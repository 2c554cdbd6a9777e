"""The drain that a hook starts does what the command does, and loads less."""

from __future__ import annotations

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
from tests.road.sessions import Session

CHECKOUT = Path(fast.__file__).parents[2]


@pytest.fixture
def transcript(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(project.home))
    return Session("s-1").user("Fix the parser.").write(project.home / "s-1.jsonl")


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


def leave_rubbish(spool_dir: Path, content: bytes = b"{") -> Path:
    spool_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = spool_dir / "00000000000000000001-1-1.json"
    path.write_bytes(content)
    return path


def test_it_takes_the_spool_in_without_the_command_line(project: Project, transcript: Path) -> None:
    unwanted = {"click", "alembic.command", "anthropic", "pydantic", "rich", "sqlalchemy.dialects.postgresql"}
    for first_use in ({"alembic.command", "sqlalchemy.dialects.postgresql"}, set()):  # alembic makes the ledger
        deliver(project, transcript)
        code, err = background(project, "-X", "importtime")
        assert (code, counts(project.spool).pending) == (0, 0)
        loaded = {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}
        assert "reflector.ledger.store" in loaded  # the list is a list
        assert loaded & unwanted <= first_use


def test_what_cannot_be_taken_in_is_kept_and_the_exit_code_tells(project: Project, transcript: Path) -> None:
    deliver(project, transcript)
    transcript.unlink()
    assert background(project) == (1, "")
    leave_rubbish(project.spool)
    assert background(project) == (1, "")
    assert background(project) == (0, "")
    kept = counts(project.spool)
    assert (kept.failed, kept.broken) == (1, 1)


def test_an_error_has_the_commands_words_and_exit_code(project: Project, transcript: Path) -> None:
    deliver(project, transcript)
    project.environ["REFLECTOR_BACKEND"] = "nobody"
    code, err = background(project)
    assert (code, "nobody" in err, "Traceback" in err) == (2, True, False)
    assert counts(project.spool).pending == 1


def test_a_drain_that_leaves_the_rest_to_another_still_tells_what_it_set_aside(
    project: Project, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_rubbish(project.spool)
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


@pytest.mark.usefixtures("transcript")
def test_a_drain_names_no_failure_of_another_project_in_the_users_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.claude.mkdir()
    looks = spool.pending_for

    def meanwhile(root: Path, part: str = "", aside: spool.Aside | None = None) -> list[spool.Delivery]:
        """A delivery of another project, which is kept with the user, fails in the drain of that project; one that
        cannot be read as a delivery may be anybody's."""
        project.environ = {"CLAUDE_PROJECT_DIR": "/nowhere/else"}
        project.hook(event("SessionEnd"))
        for delivery in spool.pending(project.fallback):
            spool.fail(delivery, ValueError("not a transcript"))
        leave_rubbish(project.fallback, b'{"v": 2}')
        monkeypatch.setattr(spool, "pending_for", looks)
        return looks(root, part, aside)

    monkeypatch.setattr(spool, "pending_for", meanwhile)
    done = drain(ours.Project.at(project.path))
    assert done is not None
    assert counts(project.fallback).failed == 2
    assert [Path(path).name for path, _ in done.failed] == ["00000000000000000001-1-1.json"]
