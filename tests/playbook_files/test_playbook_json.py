"""playbook.json and its ledger: whose a file is, what is kept, and a process that dies in the
middle of a write.

`test_file_in_any_hands` plays edits, questions, writes, exports and checkouts against each other.
"""

import json
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reflector.changes.apply import apply_changes
from reflector.files import Folder
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.playbook_files.playbook_json import Kind, examine_playbook, settle_file, sync
from reflector.project import Project
from tests.building import commit, git, meanwhile
from tests.conftest import first_fast, slow_except
from tests.ledger.events import add_bullet, added
from tests.road.agent import Agent
from tests.road.sessions import Session

PAT, MIS = "PATTERNS & APPROACHES", "MISTAKES TO AVOID"
FIRST = "Write the failing test first."


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> None:
    """A person has a home, and their ledgers are noted there."""
    (tmp_path / "home").mkdir(exist_ok=True)


@pytest.fixture
def agent(agent: Agent) -> Agent:
    """An agent whose playbook the ledger knows."""
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
    return {
        b["name"]: b["text"] for bullets in document(agent)["sections"].values() for b in bullets
    }


def listed(agent: Agent) -> dict[str, tuple[int, int]]:
    return {b["name"]: (b["helpful"], b["harmful"]) for b in agent.json("list")}


def edits(ledger: Ledger, project: Project) -> int:
    """How many events a synchronisation appends."""
    before = ledger.head().position
    sync(ledger, project)
    return ledger.head().position - before


def sessions(agent: Agent, *numbers: int, name: str = "pat-001") -> list[Path]:
    return [Session(f"s-{n}").cites(name).write(agent.home / f"s-{n}.jsonl") for n in numbers]


def rewritten(**more: Any) -> Callable[[bytes], bytes]:
    return lambda raw: json.dumps({**json.loads(raw), **more}, indent=4).encode()


def with_text(text: str) -> Callable[[bytes], bytes]:
    return lambda raw: raw.replace(b"one", text.encode())


#: What becomes of the newest export of "one" and "two", what it is to the ledger, and what its
#: problems say.
LOOKS: dict[str, tuple[Callable[[bytes], bytes | None], Kind, str]] = {
    "it is deleted": (lambda _: None, "missing", ""),
    "it is as it was written": (bytes, "written", ""),
    "an editor changed its layout": (rewritten(), "ours", ""),
    "a text is reworded": (with_text("one more"), "ours", ""),
    "it lost its time": (rewritten(last_updated=None), "ours", ""),
    "it is of a later state": (
        rewritten(last_updated="2099-01-01T00:00:00.000000Z"),
        "another's",
        "",
    ),
    "a quotation mark is missing": (
        lambda raw: raw.replace(b'"version"', b"version"),
        "unreadable",
        "line 2, column 3",
    ),
    "it has a conflict": (lambda raw: b"<<<<<<< HEAD\n" + raw, "unreadable", "line 1, column 1"),
    "it is empty": (lambda _: b"", "unreadable", "is empty"),
    "a counter is negative": (
        lambda raw: raw.replace(b'"helpful": 0', b'"helpful": -1'),
        "unreadable",
        "is negative",
    ),
    "a new text hides a character": (with_text("on\u200be"), "unreadable", "U+200B"),
    "a new text holds a secret": (
        with_text("Use ghp_" + "a1B2" * 9),
        "unreadable",
        "seems to contain a secret",
    ),
}


@pytest.mark.parametrize("how", LOOKS)
def test_file_is_one_of_eight_kinds(tmp_path: Path, how: str) -> None:
    becomes, kind, problem = LOOKS[how]
    project = Project.at(tmp_path)
    with project.open_ledger() as ledger:
        for text in ("one", "two"):
            add_bullet(ledger, "pat", text)
        sync(ledger, project)
        raw = becomes(project.playbook_json.read_bytes())
        if raw is None:
            project.playbook_json.unlink()
        else:
            project.playbook_json.write_bytes(raw)
        found = examine_playbook(ledger, project)
        assert found.kind == kind
        assert problem in " ".join(map(str, found.loaded.problems))
        assert "a1B2a1B2" not in " ".join(map(str, found.loaded.problems))
        head, synced = ledger.head(), sync(ledger, project)
        assert (ledger.head() == head) == (how != "a text is reworded")
        assert (synced.of_another is not None) == (kind == "another's")
        assert (project.playbook_json.read_bytes() == raw) == (kind in ("unreadable", "written"))


def test_older_export_does_not_restore_erased_text(tmp_path: Path) -> None:
    project, token = Project.at(tmp_path), "ghp_" + "a1B2" * 9
    with project.open_ledger() as ledger:
        ledger.append([added("pat-001", f"Log in with {token}")])
        sync(ledger, project)
        old = project.playbook_json.read_bytes()
        ledger.redact([added("pat-001").event_id], reason="a secret", actor="human")
        sync(ledger, project)
        project.playbook_json.write_bytes(old)
        assert (examine_playbook(ledger, project).kind, edits(ledger, project)) == ("ours", 0)
        assert token not in project.playbook_json.read_text()


def test_older_export_after_another_layout_restores_no_rule(tmp_path: Path) -> None:
    project = Project.at(tmp_path)
    with project.open_ledger() as ledger:
        add_bullet(ledger, "pat", "one")
        add_bullet(ledger, "pat", "two")
        sync(ledger, project)
        old = project.playbook_json.read_bytes()
        apply_changes(ledger, [Change("remove", "pat-001")], actor="human")
        sync(ledger, project)
        whole = json.loads(project.playbook_json.read_bytes())
        project.playbook_json.write_text(json.dumps(whole, indent=4))
        sync(ledger, project, write=False)
        project.playbook_json.write_bytes(old)
        assert edits(ledger, project) == 0


def test_removed_file_without_rules_stays_away(agent: Agent) -> None:
    agent.call("remove", "pat-001", "pat-002", "mis-001")
    assert agent.counters() == {}
    agent.playbook.unlink()
    agent.call("drain")
    assert not agent.playbook.exists()
    agent.call("rebuild", "--check")


def test_settled_file_keeps_own_edits_and_another_aside(
    tmp_path: Path,
) -> None:
    project = Project.at(tmp_path)
    with project.open_ledger() as ledger:
        add_bullet(ledger, "pat", "one")
        sync(ledger, project)
        project.playbook_json.write_bytes(with_text("one more")(project.playbook_json.read_bytes()))
        assert settle_file(ledger, project) is None
        assert edits(ledger, project) == 1
        theirs = rewritten(last_updated="2099-01-01T00:00:00.000000Z")(
            project.playbook_json.read_bytes()
        )
        project.playbook_json.write_bytes(theirs)
        kept = settle_file(ledger, project)
        assert (kept.read_bytes(), edits(ledger, project)) == (theirs, 0)


def test_unparsable_file_is_left_while_counting_continues(
    agent: Agent,
) -> None:
    whole = document(agent)
    whole["sections"][PAT][0]["helpful"] = -1
    whole["sections"][PAT][1]["text"] = ""
    whole["sections"][MIS].append({"name": "xyz", "text": "Fine."})
    broken = save(agent, whole)
    for command in (
        ["list"],
        ["drain"],
        ["add", "pat", "More."],
        ["ingest", *map(str, sessions(agent, 1))],
    ):
        told = agent.call(*command).err
        assert all(said in told for said in (str(agent.playbook), "pat-001", "pat-002", "xyz"))
    for command in (["status"], ["doctor"]):
        assert "helpful is negative" in agent.call(*command, code=1).out
    start = agent.hook("SessionStart", session_id="s-2")
    assert "[pat-001] helpful=1 harmful=0 :: Write the failing test first." in start
    assert "helpful is negative" in start
    assert agent.playbook.read_bytes() == broken
    rebuilt = agent.call("rebuild")
    (kept,) = [path for path in (agent.state / "kept").iterdir() if path.read_bytes() == broken]
    assert str(kept) in rebuilt.err
    assert agent.counters()["pat-001"] == (1, 0)
    assert [type_ for type_, _ in by_human(agent)] == ["bullet.added"]


def test_file_of_another_ledger_is_reported_and_unused(agent: Agent, tmp_path: Path) -> None:
    other = Agent.in_folder(
        tmp_path / "other", {PAT: [{"name": "pat-009", "text": "Theirs.", "helpful": 999}]}
    )
    other.call("drain")
    agent.playbook.write_bytes(other.playbook.read_bytes())
    # a question leaves the file, and renders the text
    for ask in (lambda: None, lambda: agent.call("list")):
        ask()
        told = agent.hook("SessionStart", session_id="s-1")
        assert f"[pat-001] helpful=0 harmful=0 :: {FIRST}" in told
        assert "Theirs." not in told
        assert "written by another ledger" in told
    told = agent.call("drain").err
    (kept,) = (agent.state / "kept").glob("another-ledger-*.json")
    assert str(kept) in told
    assert listed(agent).keys() == {"pat-001", "pat-002", "mis-001"} == agent.counters().keys()
    assert str(kept) in agent.call("status", code=1).out
    assert str(kept) in agent.call("doctor", code=None).out
    assert agent.call("adopt", kept).out == "1 rule adopted\n"
    kept.unlink()
    agent.call("status")
    assert by_human(agent) == []


def test_file_of_another_ledger_is_imported_with_rename(agent: Agent, tmp_path: Path) -> None:
    bullets = [
        {"name": "pat-001", "text": "Theirs."},
        {"name": "pat-003", "text": "Theirs as well."},
    ]
    other = Agent.in_folder(tmp_path / "other", {PAT: bullets})
    assert "adopt --rename" in agent.call("adopt", other.playbook, code=1).err
    agent.call("adopt", other.playbook, "--rename")
    texts = {one["name"]: one["text"] for one in agent.json("list")}
    assert (texts["pat-001"], texts["pat-003"], texts["pat-004"]) == (
        FIRST,
        "Theirs as well.",
        "Theirs.",
    )
    assert "does not contain a new rule" in agent.call("adopt", other.playbook, "--rename").out


def configured(agent: Agent, url: str) -> None:
    (agent.home / ".config/reflector").mkdir(parents=True)
    (agent.home / ".config/reflector/config.toml").write_text(f'ledger_url = "{url}"\n')


def test_foreign_bullet_is_reported_and_not_used(agent: Agent) -> None:
    agent.call("ingest", *sessions(agent, 1))
    other = Agent(agent.project.parent / "other", agent.home)
    other.claude.mkdir(parents=True)
    other.write_playbook({PAT: [{"name": "pat-001", "text": "Something else."}]})
    configured(agent, f"sqlite:///{agent.ledger}")
    mine = other.playbook.read_bytes()
    assert other.json("list") == agent.json("list")
    assert "Something else." not in other.hook("SessionStart", session_id="s-2")
    for command in ("status", "doctor"):
        assert "in this ledger, the name belongs to another rule" in other.call(command, code=1).out
    assert other.playbook.read_bytes() == mine
    refused = agent.call("adopt", other.playbook, code=1)
    assert str(other.playbook) in refused.err
    assert "pat-001" in refused.err


def test_two_projects_share_a_ledger_without_loss(
    tmp_path: Path,
) -> None:
    one = Agent.in_folder(tmp_path)
    two = Agent(tmp_path / "two", one.home)
    two.claude.mkdir(parents=True)
    two.write_playbook(
        {"OTHERS": [{"name": "oth-777", "text": "Two's own advice.", "helpful": 9, "harmful": 0}]}
    )
    configured(one, f"sqlite:///{tmp_path / 'all.db'}")
    one.call("drain")
    two.call("drain")
    assert two.counters() == {**one.counters(), "oth-777": (9, 0)}
    one.call("drain")
    assert one.counters() == two.counters()
    assert by_human(one) == []


def test_adopted_file_may_be_edited_before_a_write(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    theirs = {
        "version": "1.0",
        "last_updated": "2026-01-01T00:00:00Z",
        "sections": {PAT: ["Old.", "Older."]},
    }
    save(agent, theirs)
    assert listed(agent) == {"pat-001": (0, 0), "pat-002": (0, 0)}
    assert document(agent) == theirs
    theirs["sections"] = {PAT: ["Old.", "Newer."]}
    save(agent, theirs)
    agent.call("drain")
    assert texts(agent) == {"pat-001": "Old.", "pat-003": "Newer."}
    assert [type_ for type_, _ in by_human(agent)] == ["bullet.added", "bullet.removed"]


#: Files as other tools have them, without a time, by what they say of a bullet's counters.
ADOPTED = {
    "with counters": {
        "version": "1.0",
        "key_points": [{"name": "pat-001", "text": FIRST, "helpful": 2, "harmful": 1}],
    },
    "with a score": {
        "version": "1.0",
        "key_points": [{"name": "pat-001", "text": FIRST, "score": 3}],
    },
    "without": {"sections": {"PATTERNS": [{"name": "pat-001", "text": FIRST}]}},
}


@pytest.mark.parametrize("form", first_fast(1, ADOPTED))
@pytest.mark.parametrize("how", slow_except(["stash"], ["checkout .", "stash", "reset --hard"]))
def test_restored_adopted_file_recounts_nothing(tmp_path: Path, form: str, how: str) -> None:
    agent = Agent(tmp_path / "project", tmp_path / "home")
    agent.claude.mkdir(parents=True)
    agent.playbook.write_text(json.dumps(ADOPTED[form]))
    commit(agent.project)
    agent.call("ingest", *sessions(agent, 1, 2))
    agent.call("add", "ctx", "Learned since.")
    counted = listed(agent)
    git(agent.project, *how.split())
    agent.call("ingest", *sessions(agent, 3))
    helpful, harmful = counted["pat-001"]
    assert listed(agent) == {"pat-001": (helpful + 1, harmful), "ctx-001": (0, 0)}
    assert [type_ for type_, _ in by_human(agent)] == ["bullet.added"]


@pytest.mark.parametrize("more", ["", "Edited here too."])
def test_pulled_edit_is_gits_and_its_counts_ignored(
    agent: Agent, tmp_path: Path, more: str
) -> None:
    commit(agent.project)
    git(agent.project, "clone", ".", tmp_path / "theirs")
    theirs = tmp_path / "theirs" / ".claude" / "playbook.json"
    theirs.write_text(
        theirs.read_text()
        .replace(FIRST, "Run what we say.")
        .replace('"helpful": 3', '"helpful": 999')
    )
    git(tmp_path / "theirs", "commit", "-am", "a typo")
    git(agent.project, "pull", tmp_path / "theirs")
    if more:
        agent.playbook.write_text(agent.playbook.read_text().replace(texts(agent)["mis-001"], more))
    assert listed(agent)["pat-002"] == (3, 1)
    said = [
        (one["type"], one["actor"], one["data"].get("text"))
        for one in agent.events()
        if one["actor"] != "import"
    ]
    assert said[0] == ("bullet.revised", "git", "Run what we say.")
    assert [actor for _, actor, _ in said[1:]] == ["human"] * bool(more)


def test_restored_version_does_not_undo_a_read_edit(
    agent: Agent,
) -> None:
    commit(agent.project)
    whole = document(agent)
    del whole["sections"][MIS]
    save(agent, whole)
    assert "mis-001" not in listed(agent)
    commit(agent.project)
    git(agent.project, "checkout", "HEAD~1", "--", ".claude/playbook.json")
    agent.call("drain")
    assert "mis-001" not in texts(agent)
    assert [type_ for type_, _ in by_human(agent)] == ["bullet.removed"]


@pytest.mark.parametrize("how", ["found", "imported"])
def test_old_form_is_adopted_once_and_kept(tmp_path: Path, how: str) -> None:
    old = {"key_points": ["a", {"name": "kpt_004", "text": "b", "score": -3}]}
    agent = Agent.in_folder(tmp_path, {})
    path = agent.playbook if how == "found" else tmp_path / "old.json"
    agent.playbook.unlink()
    path.write_text(json.dumps(old))
    for _ in range(2):
        agent.call(*(["drain"] if how == "found" else ["adopt", path]))
    assert agent.counters() == {"kpt_005": (0, 0), "kpt_004": (0, 3)}
    assert [event["type"] for event in agent.events()] == ["playbook.imported"]
    (kept,) = (agent.state / "kept").iterdir()
    assert json.loads(kept.read_bytes()) == old


def test_a_link_is_neither_read_nor_written_through(agent: Agent, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "playbook.json"
    real.parent.mkdir()
    agent.playbook.rename(real)
    before = real.read_bytes()
    agent.playbook.symlink_to(real)
    told = agent.call("ingest", *sessions(agent, 1), code=1).err
    assert f"{agent.playbook}: is a symbolic link" in told
    assert "replace the link with a copy of the file" in told
    assert (agent.playbook.is_symlink(), real.read_bytes()) == (True, before)


def test_two_rebuilds_give_equal_bytes_and_permissions(agent: Agent) -> None:
    agent.playbook.chmod(0o640)
    agent.call("ingest", *sessions(agent, 1, 2))
    assert agent.playbook.stat().st_mode & 0o777 == 0o640
    assert all(path.stat().st_mode & 0o077 == 0 for path in (agent.state / "kept").iterdir())
    assert agent.state.stat().st_mode & 0o077 == 0
    written = agent.playbook.read_bytes()
    for _ in range(2):
        agent.call("rebuild")
        assert agent.playbook.read_bytes() == written
        agent.playbook.unlink()
    agent.call("rebuild")
    assert agent.call("rebuild", "--check").out == ""


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
        if given[-1] in (".gitignore", "injection.txt", "entry.json", "rules.json"):
            return really(*given)
        if not before:
            really(*given)
        os._exit(137)

    with warnings.catch_warnings():
        # the test runner has threads; none of them holds a lock
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        setattr(owner, name, dying)
        with suppress(BaseException):
            agent.call(*arguments, code=None)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 137


@pytest.mark.parametrize("edited", slow_except([True], [False, True]))
@pytest.mark.parametrize("step", STEPS)
def test_killed_write_is_not_mistaken_for_an_edit(agent: Agent, step: str, edited: bool) -> None:
    killed(agent, step, "ingest", *sessions(agent, 1))
    if edited:
        whole = document(agent)
        whole["sections"][PAT][1]["text"] = "Keep functions short."
        save(agent, whole)
    agent.call("drain")
    assert agent.counters()["pat-001"] == (1, 0)
    assert (
        by_human(agent)
        == [("bullet.revised", {"name": "pat-002", "text": "Keep functions short."})] * edited
    )
    assert {path.name for path in agent.claude.iterdir()} == {"playbook.json", "reflector"}


@pytest.mark.parametrize("step", first_fast(1, STEPS))
def test_killed_reading_takes_edits_once(tmp_path: Path, step: str) -> None:
    agent = Agent.in_folder(tmp_path)
    stamp = "2026-01-01T00:00:00Z"
    save(
        agent,
        {
            "last_updated": stamp,
            "sections": {PAT: [{"name": "pat-001", "text": "Old."}, "Without a name."]},
        },
    )
    killed(agent, step, "drain")
    agent.call("drain")
    whole = document(agent)
    whole["sections"][PAT].append({"text": "New, without a name."})
    whole["sections"][MIS].append(
        {"name": "mis-007", "text": "New, with a name.", "helpful": 2, "harmful": 0}
    )
    whole["sections"][PAT][0]["helpful"] = 3
    save(agent, whole)
    killed(agent, step, "drain")
    for _ in range(2):
        agent.call("drain")
    assert agent.counters() == {
        "pat-001": (3, 0),
        "pat-002": (0, 0),
        "pat-003": (0, 0),
        "mis-007": (2, 0),
    }
    assert (len(by_human(agent)), len(agent.events("playbook.imported"))) == (3, 1)


@pytest.mark.parametrize("had", ["a session", "a session and an edit"])
def test_edit_while_the_file_is_written_is_recorded(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, had: str
) -> None:
    whole = document(agent)
    edits = [("bullet.revised", {"name": "pat-002", "text": "Keep functions short."})]
    if had != "a session":
        whole["sections"][PAT][0]["text"] = "Write the failing test before the fix."
        edits.insert(
            0,
            (
                "bullet.revised",
                {"name": "pat-001", "text": ("Write the failing test before the fix.")},
            ),
        )
        save(agent, whole)
    whole["sections"][PAT][1]["text"] = "Keep functions short."
    meanwhile(monkeypatch, agent.playbook, lambda: save(agent, whole))
    agent.call("ingest", *sessions(agent, 1))
    agent.call("drain")
    assert by_human(agent) == edits
    assert texts(agent)["pat-002"] == "Keep functions short."
    assert agent.counters()["pat-001"] == (1, 0)
    meanwhile(monkeypatch, agent.playbook, agent.playbook.unlink)
    agent.call("ingest", *sessions(agent, 2))
    agent.call("drain")
    assert agent.counters()["pat-001"] == (2, 0)
    assert agent.call("rebuild", "--check").out == ""
