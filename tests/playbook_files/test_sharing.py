"""One playbook in several clones: real git, real commands, each clone with a ledger of its own."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit

import pytest

from reflector.changes.apply import apply_changes
from reflector.changes.erase import returning_texts
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.git import git_says
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import MAX_BYTES, dump_shared, load
from reflector.playbook_files import git_versions
from reflector.playbook_files.edits import take_version
from reflector.playbook_files.git_versions import branch_history, entry_in_file
from tests.conftest import first_fast, slow_except
from tests.ledger.events import added, imported, merged, reflected, window
from tests.road.agent import Agent

PAT = "PATTERNS & APPROACHES"
RUN = Bullet("pat-001", "pat", "Run the tests.")
IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")


class Clone(Agent):
    """A clone of a repository in which an agent works."""

    def git(self, *arguments: str | Path, code: int | None = 0) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *map(str, arguments)],
            cwd=self.project,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_EDITOR": "true"},
            capture_output=True,
            text=True,
        )
        assert code is None or done.returncode == code, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    def publish(self, why: str) -> None:
        self.git("add", ".claude")
        self.git("commit", "-qm", why)

    def push(self) -> None:
        self.git("push", "-q", "origin", "HEAD:main")

    def share(self, why: str) -> None:
        self.publish(why)
        self.push()

    def pull(self, *options: str) -> None:
        self.git("pull", "-q", *options, "origin", "main")

    def counts(self) -> dict[str, tuple[str, int, int]]:
        return {b["name"]: (b["text"], b["helpful"], b["harmful"]) for b in self.json("list")}

    def is_clean(self) -> bool:
        return self.git("status", "--porcelain", "--untracked-files=all") == ""

    def actors(self) -> set[str]:
        return {event["actor"] for event in self.events() if event["type"].startswith("bullet.")}


@pytest.fixture
def first(tmp_path: Path) -> Clone:
    """A clone that shares a playbook of one bullet."""
    origin = tmp_path / "origin.git"
    subprocess.run(["git", *IDENTITY, "init", "-q", "--bare", origin], check=True)
    clone = cloned(tmp_path, "first")
    clone.call("add", "pat", "Run the tests.")
    clone.call("team")
    clone.share("Shared the playbook")
    return clone


def cloned(tmp_path: Path, name: str) -> Clone:
    home = tmp_path / name / "home"
    home.mkdir(parents=True)
    project = tmp_path / name / "project"
    subprocess.run(
        ["git", "clone", "-q", tmp_path / "origin.git", project], check=True, capture_output=True
    )
    return Clone(project, home)


@pytest.fixture
def second(first: Clone, tmp_path: Path) -> Clone:  # noqa: ARG001 - it published what is cloned
    clone = cloned(tmp_path, "second")
    clone.call("team")
    assert clone.is_clean()
    return clone


@pytest.mark.parametrize("rebase", slow_except(["false"], ["false", "true"]))
def test_two_clones_merge_without_a_loss(first: Clone, second: Clone, rebase: str) -> None:
    run, one, two = "Run the tests.", "From the first.", "From the second."
    for clone, text in ((first, one), (second, two)):
        clone.counted("pat-001", id="s-1")
        assert clone.is_clean()
        clone.call("add", "pat", text)
        clone.counted("pat-002", id="s-2")
        clone.publish("Added a bullet")
    first.push()
    second.git("-c", f"pull.rebase={rebase}", "pull", "-q", "origin", "main")
    second.call("list")
    assert second.is_clean()
    assert second.counts() == {
        "pat-001": (run, 1, 0),
        "pat-002": (one, 0, 0),
        "pat-003": (two, 1, 0),
    }
    assert second.json("blame", "pat-002")[-1]["rationale"] == (
        "set by git with 0 helpful, 0 harmful"
    )
    second.counted("pat-003", id="s-3")
    second.push()
    first.pull("--ff-only")
    first.counted("pat-003", id="s-3")
    assert first.counts() == {
        "pat-001": (run, 1, 0),
        "pat-002": (one, 1, 0),
        "pat-003": (two, 1, 0),
    }
    assert second.counts()["pat-003"] == (two, 2, 0)
    assert first.playbook.read_bytes() == second.playbook.read_bytes()
    for clone in (first, second):
        clone.call("drain")
        assert clone.is_clean()
        assert clone.call("verify").out == ""
        assert "git" in clone.actors()
    by_hand = [
        event["data"]["name"] for event in first.events("bullet.added") if event["actor"] == "human"
    ]
    assert by_hand == ["pat-001", "pat-002"]


def test_session_gets_current_counts_and_no_retired_name(first: Clone) -> None:
    first.counted("pat-001", id="s-1")
    assert b"helpful" not in first.playbook.read_bytes()
    for _ in range(2):
        assert ("[pat-001] helpful=1 harmful=0 :: Run the tests.") in first.hook(
            "SessionStart", session_id="s-2"
        )
        os.utime(first.playbook, ns=(1, 1))
    first.call("add", "pat", "Two.")
    first.publish("Added")
    first.git("revert", "--no-edit", "HEAD")
    first.call("drain")
    assert first.counts().keys() == {"pat-001"}
    first.git("revert", "--no-edit", "HEAD")
    assert "[pat-002]" not in first.hook("SessionStart")
    assert first.counts().keys() == {"pat-001", "pat-002"}
    first.call("drain")
    first.playbook.write_bytes(first.playbook.read_bytes().replace(b"Two.", b"Run the tests."))
    first.call("drain")
    os.utime(first.playbook, ns=(1, 1))
    said = first.hook("SessionStart")
    assert "[pat-001] helpful=1 harmful=0 :: Run" in said
    assert "[pat-002] helpful=0 harmful=0 :: Run" in said


def test_text_changed_on_both_sides_is_a_conflict(first: Clone, second: Clone) -> None:
    for clone, text in ((first, "Run all tests."), (second, "Run the fast tests.")):
        clone.playbook.write_text(clone.playbook.read_text().replace("Run the tests.", text))
        clone.call("drain")
        clone.publish("Reworded")
    first.push()
    assert "CONFLICT" in second.git("pull", "-q", "--no-rebase", "origin", "main", code=1)
    conflict = second.playbook.read_text()
    assert conflict.count("<<<<<<< ours") == 1
    assert second.counts()["pat-001"] == ("Run the fast tests.", 0, 0)
    assert second.playbook.read_text() == conflict
    ours, theirs = '        "text": "Run the fast tests."\n', '        "text": "Run all tests."\n'
    second.playbook.write_text(
        conflict.replace((f"<<<<<<< ours\n{ours}=======\n{theirs}>>>>>>> theirs\n"), theirs)
    )
    second.publish("Chose theirs")
    assert second.counts()["pat-001"] == ("Run all tests.", 0, 0)
    assert second.is_clean()


@pytest.fixture(params=first_fast(1, ["the first", "the second"]))
def removed_and_edited(
    request: pytest.FixtureRequest, first: Clone, second: Clone
) -> Callable[..., str]:
    """The first clone removes the cited pat-001, the second edits it, and one of both merges.
    Returns what git and reflector print while both pull.
    """

    def merge(*edits: Sequence[str]) -> str:
        for clone, sessions in ((first, ["s-1", "s-2"]), (second, ["s-3"])):
            for session in sessions:
                clone.counted("pat-001", id=session)
        first.call("remove", "pat-001")
        first.publish("Removed")
        for edit in edits:
            second.call("edit", "pat-001", *edit)
        second.publish("Edited")
        pairs = {"the first": (second, first), "the second": (first, second)}
        publishing, merging = pairs[request.param]
        publishing.push()
        printed = ""
        for clone in (merging, publishing):
            printed += clone.git("pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
            printed += clone.call("list").err
            clone.push()
        return printed

    return merge


@pytest.mark.slow
def test_removal_outlives_a_move(
    first: Clone, second: Clone, removed_and_edited: Callable[..., str]
) -> None:
    removed_and_edited(["--section", "ctx"])
    assert first.counts() == second.counts() == {}
    assert first.is_clean()
    assert second.is_clean()


@pytest.mark.slow
def test_undone_removal_keeps_the_name(
    first: Clone, second: Clone, removed_and_edited: Callable[..., str]
) -> None:
    removed_and_edited(["--section", "ctx"])
    first.call("undo", "pat-001")
    first.share("Undone")
    settle(second, first)
    assert first.counts() == {"pat-001": ("Run the tests.", 2, 0)}
    assert second.counts() == {"pat-001": ("Run the tests.", 1, 0)}


@pytest.mark.parametrize("moved", first_fast(1, ["", "moved"]))
@pytest.mark.slow
def test_reworded_rule_returns_with_its_evidence(
    first: Clone, second: Clone, removed_and_edited: Callable[..., str], moved: str
) -> None:
    moves = [["--section", "ctx"]] if moved else []
    printed = removed_and_edited(["Run all tests."], *moves)
    assert printed.count("`reflector remove pat-001`") == 2
    assert first.counts() == {"pat-001": ("Run all tests.", 2, 0)}
    assert second.counts() == {"pat-001": ("Run all tests.", 1, 0)}
    assert first.playbook.read_bytes() == second.playbook.read_bytes()
    first.call("remove", "pat-001")
    first.share("Removed again")
    second.pull()
    assert first.counts() == second.counts() == {}


@pytest.mark.slow
def test_returned_rule_adds_up_when_ledgers_merge(
    first: Clone, second: Clone, removed_and_edited: Callable[..., str], tmp_path: Path
) -> None:
    removed_and_edited(["Run all tests."])
    for source, target in ((first, second), (second, first)):
        (tmp_path / "events").write_text(source.call("export", "--format", "ndjson").out)
        target.call("import", str(tmp_path / "events"))
    assert first.counts() == second.counts() == {"pat-001": ("Run all tests.", 3, 0)}


@pytest.mark.parametrize("edit", [["Run all tests."], ["--section", "ctx"]])
@pytest.mark.slow
def test_older_version_never_restores_a_rule(first: Clone, edit: list[str]) -> None:
    first.call("edit", "pat-001", *edit)
    first.publish("Edited")
    first.call("edit", "pat-001", "Run each test.")
    first.publish("Reworded")
    first.call("remove", "pat-001")
    first.publish("Removed")
    first.git("checkout", "-q", "HEAD~2")
    first.call("drain")
    assert first.counts() == {}
    assert first.is_clean()


@pytest.mark.slow
def test_branch_with_a_new_text_returns_a_rule(first: Clone) -> None:
    first.counted("pat-001", id="s-1")
    first.git("checkout", "-qb", "other")
    first.call("edit", "pat-001", "Run all tests.")
    first.publish("Reworded")
    first.git("checkout", "-q", "main")
    first.call("remove", "pat-001")
    first.publish("Removed")
    first.git("merge", "-q", "--no-edit", "other")
    assert first.counts() == {"pat-001": ("Run all tests.", 1, 0)}
    assert first.is_clean()


@pytest.mark.slow
def test_rebased_removal_keeps_the_rule_of_others(first: Clone, second: Clone) -> None:
    first.call("add", "pat", "Ask first.")
    first.share("Added")
    second.call("add", "pat", "Keep commits small.")
    second.publish("Added")
    second.call("remove", "pat-002")
    second.publish("Removed")
    assert "reflector remove" not in second.git("pull", "-q", "--rebase", "origin", "main")
    texts = {text for text, *_ in second.counts().values()}
    assert texts == {"Run the tests.", "Ask first."}


def test_new_rule_with_old_name_gets_no_evidence(first: Clone, second: Clone) -> None:
    first.call("add", "pat", "Ask first.")
    first.share("Added")
    first.counted("pat-002", id="s-1")
    first.call("remove", "pat-002")
    first.share("Removed")
    second.call("add", "pat", "Keep commits small.")
    second.publish("Added")
    second.call("edit", "pat-002", "Keep each commit small.")
    second.publish("Reworded")
    second.pull("--no-rebase", "--no-edit")
    second.push()
    first.pull()
    assert first.counts()["pat-003"] == ("Keep each commit small.", 0, 0)


def test_resolved_conflict_keeps_evidence_with_its_rule(first: Clone, second: Clone) -> None:
    for clone, word in ((first, "all"), (second, "fast")):
        clone.call("edit", "pat-001", f"Run the {word} tests.")
        clone.call("add", "pat", f"Ask for {word}.")
    with second.open_ledger() as ledger:
        seen = window(1, "s-1")
        ledger.append([seen, *reflected("r-1", seen, ("pat-002", "helpful"))])
    for clone in (first, second):
        clone.publish("Both")
    first.push()
    second.git("pull", "-q", "--no-rebase", "origin", "main", code=1)
    ours = r"<<<<<<< ours\n(.*\n)=======\n.*\n>>>>>>> theirs\n"
    second.playbook.write_text(re.sub(ours, r"\1", second.playbook.read_text()))
    assert "run `git add .claude/playbook.json`" in second.call("list").err
    assert second.counts()["pat-002"] == ("Ask for fast.", 1, 0)
    second.git("add", ".claude/playbook.json")
    assert second.call("list").err == ""
    assert second.counts()["pat-003"] == ("Ask for fast.", 1, 0)
    assert second.counts()["pat-002"] == ("Ask for all.", 0, 0)


@pytest.mark.slow
def test_renamed_bullet_of_a_colleague_is_reported_once(first: Clone, second: Clone) -> None:
    first.call("add", "pat", "Keep commits small.")
    first.share("Added")
    second.call("add", "pat", "Mine.")
    second.call("remove", "pat-002", "--why", "no use")
    second.pull()
    said = [second.call("list").err for _ in range(2)]
    assert "the rule pat-002 in" in said[0]
    assert "got the new name pat-003, because another rule already had the name" in said[0]
    assert said[1] == ""


@pytest.mark.slow
def test_source_reworded_elsewhere_takes_a_free_name(first: Clone, tmp_path: Path) -> None:
    first.call("add", "pat", "Read the log.")
    first.share("Added a bullet")
    second = cloned(tmp_path, "second")
    second.call("team")
    second.call("edit", "pat-001", "Run all tests.")
    second.call("remove", "pat-002")
    second.call("add", "pat", "From the second.")
    second.share("Edited in the second")
    first.call("merge", "pat-001", "pat-002", "--text", "Merged in the first.")
    first.publish("Merged two bullets")
    first.pull("--no-rebase")
    assert {name: text for name, (text, *_) in first.counts().items()} == {
        "pat-003": "From the second.",
        "pat-004": "Merged in the first.",
        "pat-005": "Run all tests.",
    }


@pytest.mark.slow
def test_checkout_and_revert_undo_but_stash_does_not(
    first: Clone,
) -> None:
    edited = first.playbook.read_text().replace("Run the tests.", "Run all tests.")
    for command, text in (("checkout", "Run the tests."), ("stash", "Run all tests.")):
        first.playbook.write_text(edited)
        assert first.counts()["pat-001"][0] == "Run all tests."
        first.git(command, "-q", *(["--", first.playbook] if command == "checkout" else []))
        assert first.counts()["pat-001"][0] == text
    first.git("stash", "pop", "-q")
    first.publish("Reworded")
    assert first.counts()["pat-001"][0] == "Run all tests."
    first.git("revert", "--no-edit", "HEAD")
    assert first.counts()["pat-001"][0] == "Run the tests."
    assert first.actors() == {"human", "git"}


def test_edit_after_undone_removal_keeps_counts(first: Clone) -> None:
    first.counted("pat-001", id="s-1")
    first.call("remove", "pat-001")
    first.publish("Removed")
    first.call("undo", "pat-001")
    first.playbook.write_text(first.playbook.read_text().replace("Run the tests.", "Test."))
    assert first.counts() == {"pat-001": ("Test.", 1, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("autostash", first_fast(1, [False, True]))
def test_stashed_rule_takes_a_free_name(first: Clone, second: Clone, *, autostash: bool) -> None:
    first.call("add", "pat", "From the first.")
    first.share("Added")
    second.call("add", "pat", "From the second.")
    second.counted("pat-002", id="s-1")
    if autostash:
        second.pull("--ff-only", "--autostash")
    else:
        second.git("stash", "-q")
        second.pull()
        second.git("stash", "pop", "-q")
    assert second.counts() == {
        "pat-001": ("Run the tests.", 0, 0),
        "pat-002": ("From the first.", 0, 0),
        "pat-003": ("From the second.", 1, 0),
    }


def test_pulled_entry_without_a_name_gets_one(first: Clone, second: Clone) -> None:
    whole = json.loads(first.playbook.read_bytes())
    whole["sections"][PAT].append({"text": "Ask first."})
    first.playbook.write_text(json.dumps(whole))
    first.share("Added by hand")
    second.pull()
    assert [text for text, *_ in second.counts().values()] == ["Run the tests.", "Ask first."]


def test_older_export_takes_later_commits_from_git(first: Clone, tmp_path: Path) -> None:
    first.counted("pat-001", id="s-1")
    export = tmp_path / "export.ndjson"
    export.write_text(first.call("export", "--format", "ndjson").out)
    first.call("edit", "pat-001", "Run all tests.")
    first.call("add", "pat", "Ask first.")
    first.share("Edited")
    second = cloned(tmp_path, "second")
    second.call("import", str(export))
    assert second.counts() == {
        "pat-001": ("Run all tests.", 1, 0),
        "pat-002": ("Ask first.", 0, 0),
    }
    assert second.is_clean()


def test_reverted_removal_brings_back_evidence(first: Clone, second: Clone) -> None:
    first.call("add", "pat", "Two.")
    first.publish("Added")
    first.counted("pat-002", id="s-1")
    first.push()
    second.pull()
    assert "pat-002" in second.counts()
    first.git("revert", "--no-edit", "HEAD")
    assert first.counts().keys() == {"pat-001"}
    first.git("revert", "--no-edit", "HEAD")
    assert first.counts() == {"pat-001": ("Run the tests.", 0, 0), "pat-002": ("Two.", 1, 0)}
    first.counted("pat-002", id="s-2")
    first.push()
    second.pull()
    assert second.counts() == {"pat-001": ("Run the tests.", 0, 0), "pat-002": ("Two.", 0, 0)}
    first.call("list")
    for clone in (first, second):
        clone.call("drain")
        assert clone.is_clean()
    assert first.counts() == {"pat-001": ("Run the tests.", 0, 0), "pat-002": ("Two.", 2, 0)}
    assert first.playbook.read_bytes() == second.playbook.read_bytes()
    second.git("checkout", "-q", "HEAD~3")
    assert second.counts().keys() == {"pat-001", "pat-002"}


ATTRIBUTES = {"none": None, "some": b"*.py text\n", "without an end": b"*.py text\r\n*.md text"}


@pytest.mark.parametrize("attributes", first_fast(1, ATTRIBUTES))
def test_team_setup_is_removed_byte_for_byte(tmp_path: Path, attributes: str) -> None:
    subprocess.run(["git", *IDENTITY, "init", "-q", "--bare", tmp_path / "origin.git"], check=True)
    clone = cloned(tmp_path, "one")
    clone.call("add", "pat", "One.")
    clone.counted("pat-001", id="s-1")
    if (there := ATTRIBUTES[attributes]) is not None:
        (clone.claude / ".gitattributes").write_bytes(there)

    def seen() -> dict[str, bytes]:
        files = [*clone.claude.glob("*"), clone.project / ".git" / "config"]
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    before = seen()
    assert "playbook.json merge=reflector" in clone.call("team", "--dry-run").out
    assert seen() == before
    clone.call("team")
    installed = seen()
    assert installed != before
    assert "is already shared" in clone.call("team").out
    assert seen() == installed
    assert "-playbook.json merge=reflector" in clone.call("team", "--off", "--dry-run").out
    clone.call("team", "--off")
    assert seen() == before


def test_suggested_commit_names_existing_files(
    tmp_path: Path,
) -> None:
    subprocess.run(["git", *IDENTITY, "init", "-q", "--bare", tmp_path / "origin.git"], check=True)
    clone = cloned(tmp_path, "one")
    assert ("Next: git add .claude/.gitattributes && git commit") in clone.call("team").out
    clone.call("team", "--off")
    clone.call("add", "pat", "One.")
    both = ".claude/.gitattributes .claude/playbook.json"
    assert f"Next: git add {both} && git commit" in clone.call("team").out


# Merged bullets: an older file never brings a source back to life, and nothing counts twice

SOURCES = {"pat-001": "Write the test first.", "pat-002": "Run the tests."}


def append(agent: Agent, *events: NewEvent) -> None:
    """Append by the ledger, and write the file."""
    with agent.open_ledger() as ledger:
        ledger.append(events)
    agent.call("drain")


def rows(agent: Agent) -> list[str]:
    """Each bullet that there was: its name, what became of it, and its counters."""
    return [
        f"{b['name']} {b['status']} {b['helpful']}/{b['harmful']}"
        for b in agent.json("list", "--removed")
    ]


@pytest.fixture
def agent(agent: Agent, tmp_path: Path) -> Agent:
    """Two bullets that sessions cited, merged into a third; the file as it was before is kept
    beside it.
    """
    agent.write_playbook({})
    append(agent, *(added(name, text) for name, text in SOURCES.items()))
    for number, name in enumerate(SOURCES):
        agent.counted(name, id=f"s-{number}")
    (tmp_path / "before.json").write_bytes(agent.playbook.read_bytes())
    append(agent, merged("pat-003", *SOURCES, text="Write the test first, and run it."))
    return agent


MERGED = ["pat-001 merged 1/0", "pat-002 merged 1/0", "pat-003 live 2/0"]


#: What a person makes of the file, from that before the merge and that after it, and the bullets
#: after that.
EDITS: dict[str, tuple[Callable[[str, str], str], list[str]]] = {
    "the file as it is": (lambda _, after: after, MERGED),
    "an older file": (lambda before, _: before, MERGED),
    "an older file with a source in other words": (
        lambda before, _: before.replace("Run the tests.", "Run all the tests."),
        [*MERGED, "pat-004 live 0/0"],
    ),
    "the sources in place of the merged bullet": (
        lambda before, after: json.dumps(
            {**json.loads(after), "sections": json.loads(before)["sections"]}
        ),
        ["pat-001 live 1/0", "pat-002 live 1/0", "pat-003 removed 0/0"],
    ),
    "the sources beside the merged bullet": (
        lambda before, after: after.replace(
            '": [\n      {', f'": [{_entries(before)},\n      {{', 1
        ),
        [*MERGED, "pat-004 live 0/0", "pat-005 live 0/0"],
    ),
}


def _entries(file: str) -> str:
    (there,) = filter(None, json.loads(file)["sections"].values())
    return ", ".join(map(json.dumps, there))


@pytest.mark.parametrize("edit", first_fast(2, EDITS))
def test_sources_in_the_file_never_count_twice(agent: Agent, tmp_path: Path, edit: str) -> None:
    makes, wanted = EDITS[edit]
    after = agent.playbook.read_text("utf-8")
    agent.playbook.write_text(makes((tmp_path / "before.json").read_text("utf-8"), after), "utf-8")
    agent.call("drain")
    assert rows(agent) == wanted
    assert (agent.events()[-1]["type"] == ev.BULLET_UNMERGED) == ("pat-003 removed 0/0" in wanted)
    assert (agent.playbook.read_text("utf-8") == after) == (wanted == MERGED)


def test_erased_merged_text_is_known_by_its_hash(agent: Agent) -> None:
    with agent.open_ledger() as ledger:
        (event,) = ledger.events(types=[ev.BULLET_MERGED])
        ledger.redact([event.event_id], reason="a secret", actor="human")
        texts = {"pat-003": event.data["text"]}
        assert returning_texts(ledger, ledger.head().position, texts) == {"pat-003"}
        assert (
            returning_texts(ledger, ledger.head().position, {"pat-003": "Another text."}) == set()
        )
    assert rows(agent) == MERGED


def driven(folder: Path, *versions: bytes) -> tuple[int, bytes]:
    paths = [folder / name for name in ("base", "ours", "theirs")]
    for path, version in zip(paths, versions, strict=True):
        path.write_bytes(version)
    command = [sys.executable, "-I", "-m", "reflector.hooks.git_merge", *paths]
    limit = (1 << 20, 1 << 20)  # of a file that is written
    done = subprocess.run(
        command, capture_output=True, preexec_fn=lambda: setrlimit(RLIMIT_FSIZE, limit)
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, paths[1].read_bytes()


def test_unparsable_version_is_merged_by_lines(tmp_path: Path) -> None:
    base = dump_shared([Bullet("pat-001", "pat", "One.")])
    broken = base.replace(b'"One."', b'"One.",')
    assert driven(tmp_path, base, base, broken) == (0, broken)
    code, content = driven(tmp_path, base, base.replace(b"One", b"Two"), broken)
    assert (code, content.count(b"<<<<<<<")) == (1, 1)


@pytest.mark.slow
def test_oversized_version_is_a_conflict_or_refused(
    tmp_path: Path,
) -> None:
    base = dump_shared([Bullet("pat-001", "pat", "One.")])
    assert driven(tmp_path, base, base, b" " * (MAX_BYTES + 1)) == (1, base)
    large = dump_shared([Bullet(f"pat-{n:04}", "pat", "x" * 3_000) for n in range(1, 500)])
    assert driven(tmp_path, base, base, large) == (129, base)


# Names that two ledgers gave to different rules


@pytest.fixture
def under_another_name(first: Clone, second: Clone) -> Clone:
    """A clone whose ledger calls the pulled rule pat-002 pat-003, and whose file does not."""
    second.call("add", "pat", "Mine.")
    second.call("remove", "pat-002", "--why", "no use")
    first.call("add", "pat", "Keep commits small.")
    first.share("Added")
    second.pull()
    assert second.counts()["pat-003"][0] == "Keep commits small."
    assert second.is_clean()
    return second


def settle(*clones: Clone) -> None:
    """Let every clone write its file, share it and read the others'."""
    for clone in clones * 2:
        clone.pull("--no-rebase", "--no-edit")
        clone.call("drain")
        if not clone.is_clean():
            clone.share("Settled")


@pytest.mark.slow
def test_pulled_rule_keeps_a_name_given_here(first: Clone, under_another_name: Clone) -> None:
    second = under_another_name
    second.counted("pat-003", id="s-1")
    second.git("checkout", "-q", "--", ".")
    first.counted("pat-002", id="s-2")
    first.call("add", "pat", "Ask first.")
    first.share("Added another")
    second.pull()
    texts = {text for text, *_ in second.counts().values()}
    assert texts == {"Run the tests.", "Keep commits small.", "Ask first."}
    settle(second, first)
    wanted = {
        "pat-001": ("Run the tests.", 0, 0),
        "pat-003": ("Ask first.", 0, 0),
        "pat-004": ("Keep commits small.", 1, 0),
    }
    assert first.counts() == second.counts() == wanted
    assert first.playbook.read_bytes() == second.playbook.read_bytes()


def test_name_of_a_left_rule_means_another(first: Clone, under_another_name: Clone) -> None:
    second = under_another_name
    first.call("remove", "pat-002")
    first.call("add", "pat", "Ask first.")
    first.share("Replaced a rule")
    second.pull()
    assert {text for text, *_ in second.counts().values()} == {"Run the tests.", "Ask first."}
    settle(second, first)
    assert first.counts() == second.counts()
    assert first.counts().keys() == {"pat-001", "pat-004"}


def test_branches_give_one_name_to_two_rules(first: Clone) -> None:
    first.git("checkout", "-qb", "other")
    first.call("add", "pat", "Ask first.")
    first.publish("Added on a branch")
    first.counted("pat-002", id="s-1")
    first.git("checkout", "-q", "main")
    first.playbook.write_bytes(dump_shared([RUN, Bullet("pat-002", "pat", "Keep commits small.")]))
    first.publish("Added on main")
    wanted = {
        "pat-001": ("Run the tests.", 0, 0),
        "pat-002": ("Keep commits small.", 0, 0),
        "pat-003": ("Ask first.", 1, 0),
    }
    for branch in ("main", "other", "main"):
        first.git("checkout", "-q", branch)
        assert first.counts() == wanted


@pytest.mark.slow
def test_edit_of_uncommitted_rule_keeps_evidence(first: Clone) -> None:
    first.call("add", "pat", "Ask first.")
    first.counted("pat-002", id="s-1")
    first.playbook.write_text(first.playbook.read_text().replace("Ask first.", "Always ask."))
    assert first.counts()["pat-002"] == ("Always ask.", 1, 0)


def test_rebuild_check_names_git(first: Clone) -> None:
    first.call("add", "pat", "Ask first.")
    first.publish("Added")
    first.git("checkout", "-q", "HEAD~1")
    said = first.call("rebuild", "--check", code=1).err
    assert "playbook.json is the same as in git" in said
    assert "stopped" not in said


def committed(root: Path, *versions: bytes) -> None:
    """Make a repository in which each version of playbook.json is a commit."""
    clone = Clone(root, root)
    clone.git("init", "-q")
    clone.claude.mkdir()
    for version in versions:
        clone.playbook.write_bytes(version)
        clone.publish("A version")


def test_taken_name_moves_the_ledgers_rule(ledger: Ledger, tmp_path: Path) -> None:
    content = dump_shared([Bullet("pat-001", "pat", "Theirs.")])
    committed(tmp_path, content)
    names = ("pat-001", "pat-002", "pat-003")
    ledger.append([*(added(name, "Mine.") for name in names), merged("pat-004", *names[1:])])
    before = load(dump_shared(ledger.bullets()))
    for digest, events in (("one", 3), ("two", 0)):
        assert take_version(ledger, tmp_path, load(content), digest, before) == events
        texts = {bullet.name: bullet.text for bullet in ledger.bullets()}
        assert texts["pat-001"] == "Theirs."
        assert texts["pat-005"] == "Mine."


@pytest.mark.parametrize("text", [RUN.text, "Run all tests."], ids=["its words", "earlier words"])
@pytest.mark.parametrize("names", [("pat-002",), ("pat-003", "pat-004")], ids=["used", "two names"])
def test_renamed_rule_stays_one_rule(
    ledger: Ledger, tmp_path: Path, names: Sequence[str], text: str
) -> None:
    before, after = (
        dump_shared([replace(RUN, name=name) for name in version])
        for version in ((RUN.name,), names)
    )
    committed(tmp_path, before, after)
    ledger.append([added(RUN.name, RUN.text), added("pat-002", "Mine.")])
    changes = [Change("remove", "pat-002")]
    if text != RUN.text:
        changes.append(Change("revise", RUN.name, text=text))
    apply_changes(ledger, changes, actor="human")
    take_version(ledger, tmp_path, load(after), "digest", load(before))
    assert [bullet.text for bullet in ledger.bullets()] == [text]


def test_history_with_nul_is_read(tmp_path: Path) -> None:
    committed(tmp_path, b"{\n" * 5_000 + b"a\0\xe9\0\0b\n\0\n", dump_shared([RUN]))
    assert entry_in_file(RUN) in branch_history(tmp_path).added


def test_order_of_commits_costs_one_question_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of four branches adds and removes the same rule."""
    committed(tmp_path, dump_shared([]))
    clone = Clone(tmp_path, tmp_path)
    branches = [f"b{number}" for number in range(4)]
    for branch in branches:
        clone.git("checkout", "-qb", branch, "main")
        for content in ([RUN], []):
            clone.playbook.write_bytes(dump_shared(content))
            clone.git("commit", "-qam", f"{branch} {len(content)}")
    clone.git("merge", "-qs", "ours", "-m", "all", *branches)
    history = branch_history(tmp_path)
    asked: list[tuple[str, ...]] = []

    def counted(root: Path, *words: str, given: bytes = b"") -> bytes | None:
        asked.append(words)
        return git_says(root, *words, given=given)

    monkeypatch.setattr(git_versions, "git_says", counted)
    assert not history.is_back(entry_in_file(RUN))
    assert len(asked) == 4


def test_empty_import_does_not_prevent_a_pull(ledger: Ledger, tmp_path: Path) -> None:
    before, after = dump_shared([]), dump_shared([RUN])
    committed(tmp_path, before, after)
    ledger.append([imported()])
    take_version(ledger, tmp_path, load(after), "digest", load(before))
    assert list(ledger.bullets()) == [RUN]
