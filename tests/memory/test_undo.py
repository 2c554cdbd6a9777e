"""Changes to watched files taken back with `reflector undo`, on real files."""

import errno
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from reflector import files
from reflector.attribution.steps import plain_digest
from reflector.files import Changed
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.memory import restoring
from reflector.memory.bytes import versions_folder
from reflector.memory.changes import Store, changes_in
from reflector.memory.restoring import plan_undo, restore
from reflector.project import Project
from reflector.sessions.memory_drain import bring_up_to_date
from tests.memory.world import World
from tests.road.agent import Agent, environ

BEFORE = b"# Rules\r\n\n- Test first.\n- Lint.\n\xff no end"
AFTER = b"# Rules\r\n\n- Test last.\n- Lint.\n\xff no end"


def _look(agent: Agent) -> None:
    """Record the changes, as a question does first."""
    with environ(agent.env()):
        project = Project.at(agent.project)
        project.make_state_dir()
        with project.open_ledger() as ledger:
            bring_up_to_date(project, ledger)


def _changed(agent: Agent, *contents: bytes, name: str = "CLAUDE.md") -> Path:
    """Write contents in turn, each seen by a look."""
    file = agent.project / name
    file.parent.mkdir(exist_ok=True, parents=True)
    for content in contents:
        file.write_bytes(content)
        _look(agent)
    return file


def _places(agent: Agent) -> list[str]:
    return [change["place"] for change in agent.json("log", "--memory")]


def test_undo_writes_the_exact_bytes(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER)
    file.chmod(0o640)
    agent.call("undo", "CLAUDE.md")
    assert plain_digest(file.read_bytes()) == plain_digest(BEFORE)
    assert file.stat().st_mode & 0o777 == 0o640


def test_undo_of_an_undo_writes_the_newer_bytes(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER)
    agent.call("undo", "CLAUDE.md")
    agent.call("undo", _places(agent)[0])
    assert file.read_bytes() == AFTER


def test_undo_of_an_old_removal_is_recorded_once(world: World) -> None:
    """No look ever saw the file."""
    path = world.path("AGENTS.md")
    path.write_text("# Agents\n")
    world.git("add", "-A")
    world.git("commit", "-qm", "agents")
    world.git("rm", "-q", "AGENTS.md")
    world.git("commit", "-qm", "no agents")
    agent = Agent(world.root, world.home)
    agent.call("undo", agent.json("log", "--memory", "AGENTS.md")[0]["place"])
    assert path.read_text() == "# Agents\n"
    sources = [change["source"] for change in agent.json("log", "--memory", "AGENTS.md")]
    assert sources == ["undo", "git", "git"]


def test_undo_is_recorded_once(agent: Agent) -> None:
    _changed(agent, BEFORE, AFTER)
    agent.call("undo", "CLAUDE.md")
    sources = [change["source"] for change in agent.json("log", "--memory")]
    assert sources == ["undo", "look"]


def test_next_undo_goes_further_back(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER, b"third\n")
    agent.call("undo", "CLAUDE.md")
    agent.call("undo", "CLAUDE.md")
    assert file.read_bytes() == BEFORE


def test_later_change_keeps_undo_from_writing(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER, AFTER + b"\n- Mine.\n")
    place = _places(agent)[1]
    refused = agent.call("undo", place, code=1)
    assert file.read_bytes() == AFTER + b"\n- Mine.\n"
    assert "-- Test last.\n+- Test first.\n" in refused.err
    assert f"reflector undo {place} --yes" in refused.err


def test_refused_undo_names_the_later_changes(agent: Agent) -> None:
    _changed(agent, BEFORE, AFTER, AFTER + b"\n- Mine.\n", AFTER + b"\n- Mine.\n- More.\n")
    newest, later, place, *_ = _places(agent)
    refused = agent.call("undo", place, code=1).err
    assert f"changed again later, by change {later}, {newest}. To see the last change" in refused


def test_file_is_undone_after_an_older_undo(agent: Agent) -> None:
    mine = AFTER + b"\n- Mine.\n"
    file = _changed(agent, BEFORE, AFTER, mine, mine + b"- More.\n")
    agent.call("undo", _places(agent)[2], "--yes")
    agent.call("undo", "CLAUDE.md")
    agent.call("undo", "CLAUDE.md")
    assert file.read_bytes() == BEFORE


def test_only_the_lines_are_taken_back(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER, AFTER + b"\n- Mine.\n")
    agent.call("undo", _places(agent)[1], "--yes")
    assert file.read_bytes() == BEFORE + b"\n- Mine.\n"


def test_line_added_between_stays(agent: Agent) -> None:
    added = b"# Rules\n- One.\n- Two.\n- Three.\n"
    file = _changed(agent, b"# Rules\n", added, added.replace(b"- Two", b"- Mine.\n- Two"))
    agent.call("undo", _places(agent)[1], "--yes")
    assert file.read_bytes() == b"# Rules\n- Mine.\n"


def test_changed_line_is_not_taken_back(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER, AFTER.replace(b"last", b"never"))
    refused = agent.call("undo", _places(agent)[1], "--yes", code=1)
    assert b"never" in file.read_bytes()
    assert "in CLAUDE.md, or the lines beside them, were changed later" in refused.err
    assert "-- Test last.\n+- Test first.\n" in refused.err


def test_created_file_is_removed_and_returns(agent: Agent) -> None:
    _changed(agent, BEFORE)
    file = _changed(agent, b"new\n", name="AGENTS.md")
    agent.call("undo", "AGENTS.md")
    assert not file.exists()
    agent.call("undo", _places(agent)[0])
    assert file.read_bytes() == b"new\n"


def test_deleted_file_returns_with_its_folder(agent: Agent) -> None:
    file = _changed(agent, b"rule\n", name=".claude/rules/style.md")
    file.unlink()
    file.parent.rmdir()
    _look(agent)
    agent.call("undo", ".claude/rules/style.md")
    assert file.read_bytes() == b"rule\n"


def test_version_that_was_not_kept_is_named(agent: Agent) -> None:
    file = _changed(agent, b"a\n" * 300, b"b\n" * 300)
    for version in agent.own.glob("memory/*"):
        version.unlink()
    refused = agent.call("undo", "CLAUDE.md", code=1)
    assert "does not have the version of CLAUDE.md before change" in refused.err
    assert "(earlier version not kept)" in agent.call("log", "--memory").out
    assert file.read_bytes() == b"b\n" * 300


@pytest.mark.parametrize("words", [("CLAUDE.md",), ("2", "--yes")])
def test_undo_removes_no_line_of_an_unknown_version(world: World, words: tuple[str, ...]) -> None:
    path = world.path("CLAUDE.md")
    path.write_text(path.read_text() + "- More.\n")
    content = path.read_text()
    detail = {"type": "update", "content": content, "originalFile": None, "structuredPatch": []}
    world.begins().calls("Write", file_path=str(path), content=content, detail=detail)
    refused = Agent(world.root, world.home).call("undo", *words, code=1)
    assert path.read_text() == content
    assert "reflector does not have the version of CLAUDE.md before change 2" in refused.err
    assert "-# Rules" not in refused.err


def test_bare_undo_passes_over_memory(agent: Agent) -> None:
    file = _changed(agent, BEFORE)
    agent.call("add", "pat", "Name the thing.")
    file.write_bytes(AFTER)
    _look(agent)
    agent.call("undo")
    assert file.read_bytes() == AFTER
    assert "Name the thing." not in agent.call("list").out


def test_dry_run_writes_nothing(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER)
    agent.call("undo", "CLAUDE.md", "--dry-run")
    assert file.read_bytes() == AFTER


def test_dry_run_shows_the_command_for_lines(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER, AFTER + b"\n- Mine.\n")
    place = _places(agent)[1]
    ran = agent.call("undo", place, "--dry-run")
    assert "-- Test last.\n+- Test first.\n" in ran.out
    assert (
        ran.err
        == f"Nothing was changed. To make only these changes: reflector undo {place} --yes\n"
    )
    assert file.read_bytes() == AFTER + b"\n- Mine.\n"


@pytest.mark.parametrize("is_folder", [True, False])
def test_link_out_of_the_folder_is_not_written(
    agent: Agent, tmp_path: Path, is_folder: bool
) -> None:
    file = _changed(agent, BEFORE, AFTER, name=".claude/rules/style.md")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "style.md").write_bytes(AFTER)
    file.unlink()
    if is_folder:
        file.parent.rmdir()
        file.parent.symlink_to(outside)
    else:
        file.symlink_to(outside / "style.md")
    agent.call("undo", ".claude/rules/style.md", code=None)
    assert (outside / "style.md").read_bytes() == AFTER


@pytest.fixture
def two_files(agent: Agent) -> list[Path]:
    """Two files that changed, whose changes are undone together."""
    files = [_changed(agent, BEFORE, AFTER), _changed(agent, BEFORE, AFTER, name="AGENTS.md")]
    with environ(agent.env()):
        yield files


def _undo_both(agent: Agent) -> None:
    with environ(agent.env()):
        project = Project.at(agent.project)
        with project.open_ledger() as ledger:
            changes = changes_in([Store(project, ledger)])
            by_file = {change.file: change for change in changes}
            last = [by_file[file] for file in ("CLAUDE.md", "AGENTS.md")]
            restore(plan_undo(last, "", only_lines=False))


def test_session_is_undone_as_a_whole(agent: Agent, two_files: list[Path]) -> None:
    _undo_both(agent)
    assert [file.read_bytes() for file in two_files] == [BEFORE, BEFORE]


@pytest.mark.parametrize("module", [files, restoring])
def test_full_disk_leaves_every_file(
    agent: Agent, two_files: list[Path], monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    call = "_write" if module is restoring else "replace_in"
    real = getattr(module, call)
    calls = []

    def full(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments, **options)

    monkeypatch.setattr(module, call, full)
    with pytest.raises(OSError, match="No space"):
        _undo_both(agent)
    assert [file.read_bytes() for file in two_files] == [AFTER, AFTER]
    assert not list(agent.project.glob(".*.tmp"))


@pytest.mark.parametrize(("killed_before", "restored"), [("_write", 1), ("_record", 2)])
def test_killed_undo_is_recorded_once(
    agent: Agent, two_files: list[Path], killed_before: str, restored: int
) -> None:
    if (child := os.fork()) == 0:
        real = getattr(restoring, killed_before)
        calls = []

        def die(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) == 2:
                os._exit(9)
            return real(*arguments)

        setattr(restoring, killed_before, die)
        _undo_both(agent)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    _look(agent)
    _look(agent)
    assert [file.read_bytes() for file in two_files].count(BEFORE) == restored
    changes = agent.json("log", "--memory")
    assert len(changes) == 3 + restored
    assert {change["by"] for change in changes} == {"you"}
    assert not list(agent.project.glob(".*.tmp"))


@pytest.mark.usefixtures("two_files")
def test_undo_waits_for_the_ledger(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise LedgerError("locked")

    with monkeypatch.context() as failing:
        failing.setattr(Ledger, "append", refuse)
        with pytest.raises(LedgerError, match="locked"):
            _undo_both(agent)
    _look(agent)
    sources = [change["source"] for change in agent.json("log", "--memory")]
    assert sources.count("undo") == 2
    assert len(sources) == 5


def test_file_saved_meanwhile_stays(agent: Agent) -> None:
    file = _changed(agent, BEFORE, AFTER)
    with environ(agent.env()):
        project = Project.at(agent.project)
        with project.open_ledger() as ledger:
            planned = plan_undo(changes_in([Store(project, ledger)]), "", only_lines=False)
            file.write_bytes(b"saved meanwhile\n")
            with pytest.raises(Changed):
                restore(planned)
    assert file.read_bytes() == b"saved meanwhile\n"


def test_kept_versions_are_the_owners_alone(agent: Agent) -> None:
    _changed(agent, BEFORE, AFTER)
    with environ(agent.env()):
        kept = list(versions_folder(Project.at(agent.project)).iterdir())
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}


def test_redact_erases_lines_and_bytes(agent: Agent) -> None:
    file = _changed(agent, BEFORE, BEFORE + b"\nCall Jane Doe first.\n", BEFORE)
    agent.call("redact", "--where", "Jane Doe", "--why", "GDPR", "--yes")
    held = [path for path in agent.own.rglob("*") if path.is_file()]
    assert not [path for path in held if b"Jane Doe" in path.read_bytes()]
    assert "Jane Doe" not in agent.call("show", _places(agent)[0]).out
    assert file.read_bytes() == BEFORE


def _without_versions(agent: Agent) -> str:
    """Remove the kept versions; return the place of the newest change."""
    for version in agent.own.glob("memory/*"):
        version.unlink()
    return _places(agent)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"- Lint.\r\n- Test.\r\n", b"- Lint.\r\n- Check.\r\n"),
        (b"- Lint.\n- Test.\n", b"- Lint.\n- Check.\n"),
        ("- \u200bLint.\n".encode(), b"- Check.\n"),
    ],
)
def test_exact_lines_restore_a_lost_version(agent: Agent, before: bytes, after: bytes) -> None:
    file = _changed(agent, before, after)
    agent.call("undo", _without_versions(agent), "--yes")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "before",
    [
        b"- password = hunter2hunter2\n",
        b"- " + b"x" * 1_200 + b"\n",
        b"- \xff\n",
        b"- Line.\n" * 201,
        b"- Check.\n- Test.",
        b"- Test.",
    ],
)
def test_inexact_lines_are_not_written(agent: Agent, before: bytes) -> None:
    file = _changed(agent, before, b"- Check.\n")
    refused = agent.call("undo", _without_versions(agent), "--yes", code=1)
    assert file.read_bytes() == b"- Check.\n"
    assert "change the file by hand" in refused.err


@pytest.mark.parametrize(
    "before",
    [b"- password = hunter2hunter2\n", b"x" * 1_200 + b"\n", b"- \xff\n", b"- Line.\n" * 201],
)
def test_inexact_lines_are_not_written_later(agent: Agent, before: bytes) -> None:
    file = _changed(agent, before, b"- Check.\n")
    place = _without_versions(agent)
    file.write_bytes(b"- Check.\n- Mine.\n")
    refused = agent.call("undo", place, "--yes", code=1)
    assert file.read_bytes() == b"- Check.\n- Mine.\n"
    assert "does not know the exact lines of the change" in refused.err


@pytest.mark.parametrize("then", [BEFORE, None])
def test_bytes_that_cannot_be_kept_stay(agent: Agent, then: bytes | None) -> None:
    _changed(agent, b"first\n")
    file = agent.project / "AGENTS.md"
    for content in filter(None, (then, AFTER)):
        file.write_bytes(content)
        _look(agent)
    agent.call("config", "set", "--global", "memory_keep", "0")
    for version in agent.own.glob("memory/*"):
        if version.read_bytes() == AFTER:
            version.unlink()
    refused = agent.call("undo", "AGENTS.md", code=1)
    assert file.read_bytes() == AFTER
    assert "memory_keep" in refused.err


@pytest.mark.parametrize(("is_tracked", "mode"), [(False, 0o600), (True, 0o644)])
def test_file_that_returns_is_private(agent: Agent, is_tracked: bool, mode: int) -> None:
    file = _changed(agent, BEFORE)
    if is_tracked:
        for arguments in (["init", "-q"], ["add", "CLAUDE.md"]):
            subprocess.run(["git", "-C", agent.project, *arguments], check=True)
    file.unlink()
    _look(agent)
    agent.call("undo", "CLAUDE.md")
    assert file.stat().st_mode & 0o777 == mode


def test_change_is_undone_once(agent: Agent) -> None:
    _changed(agent, BEFORE, AFTER)
    place = _places(agent)[0]
    agent.call("undo", place)
    refused = agent.call("undo", place, code=1)
    assert f"change {_places(agent)[0]} already undid change {place}" in refused.err
    assert [change["source"] for change in agent.json("log", "--memory")] == ["undo", "look"]


KEY = (
    b"-----BEGIN RSA PRIVATE KEY-----\n"
    + b"".join(bytes([65 + line]) * 63 + b"=\n" for line in range(6))
    + b"-----END RSA PRIVATE KEY-----\n"
)


@pytest.mark.parametrize("key", [KEY, KEY.replace(b"CC", "C\u200bC".encode(), 1)])
def test_lines_of_a_key_are_never_shown(agent: Agent, key: bytes) -> None:
    _changed(agent, b"# Keys\n", b"# Keys\n" + key, b"# Keys\n" + key + b"- Mine.\n")
    place = _places(agent)[1]
    shown = [
        agent.call("show", place).out,
        str(agent.json("show", place)),
        agent.call("undo", place, code=1).err,
        agent.call("undo", place, "--yes", "--dry-run").out,
    ]
    shown += map(str, agent.events("memory.changed"))
    assert not [text for text in shown if "AAAA" in text or "CCCC" in text or "FFFF" in text]


def test_file_that_became_tracked_is_undone(agent: Agent) -> None:
    """Its digests are keyed in the first event, and plain in the second."""
    _look(agent)
    file = _changed(agent, BEFORE, name="AGENTS.md")
    for arguments in (["init", "-q"], ["add", "AGENTS.md"]):
        subprocess.run(["git", "-C", agent.project, *arguments], check=True)
    file.write_bytes(AFTER)
    _look(agent)
    with environ(agent.env()):
        project = Project.at(agent.project)
        with project.open_ledger() as ledger:
            changes = changes_in([Store(project, ledger)])
            restore(plan_undo(changes, "", only_lines=False))
    assert not file.exists()


@pytest.mark.slow
def test_undone_file_names_the_last_undo(agent: Agent) -> None:
    _changed(agent, BEFORE, AFTER, AFTER + b"\n- Mine.\n")
    agent.call("undo", _places(agent)[0])
    agent.call("undo", _places(agent)[0])
    agent.call("undo", "CLAUDE.md")
    agent.call("undo", "CLAUDE.md")
    refused = agent.call("undo", "CLAUDE.md", code=1).err
    assert f"To make this change again: reflector undo {_places(agent)[0]}" in refused


def test_commit_of_an_undone_change_is_not_undone(world: World) -> None:
    agent = Agent(world.root, world.home)
    world.path("AGENTS.md").write_bytes(BEFORE)
    world.git("add", "-A")
    world.git("commit", "-qm", "before")
    _changed(agent, BEFORE, AFTER, name="AGENTS.md")
    place = _places(agent)[0]
    world.git("commit", "-qam", "after")
    agent.call("undo", "AGENTS.md")
    refused = agent.call("undo", "AGENTS.md", code=1).err
    assert f"change {place} is already undone" in refused


def test_undo_of_a_file_skips_commits(world: World) -> None:
    path = world.path("CLAUDE.md")
    before = path.read_text()
    world.begins().edits("CLAUDE.md", "# Rules\n", "# Rules\n\n- By agent.\n", shows=True)
    world.git("commit", "-qam", "agent's")
    path.write_text(path.read_text() + "- Committed.\n")
    world.git("commit", "-qam", "by hand")
    agent = Agent(world.root, world.home)
    agent.call("undo", "CLAUDE.md")
    assert path.read_text() == f"{before}- Committed.\n"
    agent.call("undo", "CLAUDE.md")
    assert path.read_text() == before


@pytest.mark.slow
def test_undone_file_names_its_change(agent: Agent) -> None:
    """The undo of an undo is not a change to the file of its own."""
    _changed(agent, BEFORE, AFTER)
    (place,) = _places(agent)
    agent.call("undo", "CLAUDE.md")
    undo = _places(agent)[0]
    for _ in range(2):
        agent.call("undo", _places(agent)[0])
    refused = agent.call("undo", "CLAUDE.md", code=1)
    assert f"change {place} is already undone, by change {undo}" in refused.err
