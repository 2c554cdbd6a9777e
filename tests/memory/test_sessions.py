"""200 scripted sessions: every difference is recorded once, and no name is wrong."""

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from reflector.memory import places
from reflector.memory.changes import Change, Store, changes_in
from reflector.memory.restoring import plan_undo, read_watched, restore
from reflector.project import Project
from reflector.sessions.drain import drain_project
from tests.kills import die_before
from tests.memory.world import Sitting, Truth, World

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
#: Each seed plays 200 sessions; MEMORY_SEED names others.
_SEEDS = tuple(map(int, os.environ.get("MEMORY_SEED", "49").split()))
_SESSIONS = 200
#: Steps of a drain that a kill may come before, and about how long its process takes to start.
_MOST_STEPS = 300
_START_S = 0.4
_LOCAL = "CLAUDE.local.md"
_RULES = ".claude/rules/style.md"
_FILES = ("CLAUDE.md", _RULES, _LOCAL)


class _Play:
    """The sessions, by one seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.shown = random.Random(f"shown {seed}")
        self.killing = random.Random(f"killing {seed}")
        slug = world.transcripts.name
        self.memory = f"~/.claude/projects/{slug}/memory/MEMORY.md"
        self.duration = 1.0
        self.killed = 0
        self.died = 0

    def line(self) -> str:
        return f"- Rule {self.random.randrange(10**9)}.\n"

    def by_hand(self, file: str) -> None:
        time.sleep(0.006)  # the clock of the files has ticked since the last call
        with self.world.changes(file, "you") as path:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text() if path.exists() else ""
            path.write_text(before + self.line())

    def by_agent(self, session: Sitting) -> None:
        file = self.random.choice((*_FILES, self.memory, self.memory))
        path = self.world.path(file)
        shows = self.shown.random() < 0.5
        is_empty = not path.exists() or not path.read_bytes()
        if is_empty or self.random.random() < 0.3:
            session.writes(file, "# Whole\n" + self.line() + self.line(), shows=shows)
        elif self.random.random() < 0.25 and file in _FILES:
            session.runs(file, f"printf -- '{self.line().strip()}\\n' >> {file}")
        else:
            lines = path.read_text().splitlines(keepends=True)
            session.edits(file, self.random.choice(lines[-3:]), self.line(), shows=shows)
        session.says("Thanks.")

    def by_git(self) -> None:
        """Commit, check out another branch, stash, rebase or reset."""
        world = self.world
        files = ("CLAUDE.md", _RULES)
        world.git("add", "-A")
        act = self.random.choice(("commit", "branch", "stash", "rebase", "reset"))
        is_dirty = bool(world.git("status", "--porcelain").strip())
        if is_dirty and act == "stash":
            world.tracked_change("stash", files=files)
            world.tracked_change("stash", "pop", "-q", files=files)
            world.truths = [
                truth._replace(by="stash")
                if number >= len(world.truths) - 4 and truth.by == "git"
                else truth
                for number, truth in enumerate(world.truths)
            ]
            return
        if is_dirty:
            world.git("commit", "-qm", f"rules {len(world.truths)}")
        if world.git("rev-list", "--count", "HEAD").strip() == "1":
            return  # no earlier commit to go to
        if act == "branch":
            world.git("branch", "-f", "side", "HEAD~1")
            world.tracked_change("checkout", "-q", "side", files=files)
            self.by_drain()
            world.tracked_change("checkout", "-q", "main", files=files)
        elif act == "rebase":
            world.git("branch", "-f", "onto", "HEAD~1")
            world.tracked_change("checkout", "-q", "onto", files=files)
            notes = f"notes-{len(world.truths)}.txt"
            world.path(notes).write_text(self.line())
            world.git("add", notes)
            world.git("commit", "-qm", "notes")
            world.tracked_change("checkout", "-q", "main", files=files)
            world.tracked_change("rebase", "-q", "-X", "theirs", "onto", files=files)
        elif act == "reset":
            world.tracked_change("reset", "-q", "--hard", "HEAD~1", files=files)

    def by_drain(self, *, kills: bool = False) -> None:
        """Drain the project; with `kills`, after drains that are killed: a process at a random
        moment, and another one at a random step.
        """
        if kills:
            self.killed += self.world.kill_drain(self.killing.uniform(0.1, 1.2) * self.duration)
            self.died += self._is_killed()
        began = time.monotonic()
        self.world.drain()
        self.duration = _START_S + time.monotonic() - began

    def _is_killed(self) -> bool:
        process = os.fork()
        if not process:
            die_before(self.killing.randint(1, _MOST_STEPS))
            try:
                drain_project(Project.at(self.world.root))
            finally:
                os._exit(0)
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])

    def session(self, number: int) -> None:
        draw = self.random.random
        for _ in range(self.random.randint(0, 2)):
            self.by_hand(self.random.choice(_FILES)) if draw() < 0.6 else self.by_git()
        if draw() < 0.7:
            self.by_drain(kills=number % 5 == 1)
        session = self.world.begins()
        other = self.world.begins() if draw() < 0.25 else session
        for _ in range(self.random.randint(0, 4)):
            self.by_agent(self.random.choice((session, other)))
            if draw() < 0.15:
                self.by_hand(self.random.choice(_FILES))
                session.says("Go on.")
            if draw() < 0.1:
                self.by_git()
        if draw() < 0.08 and self.world.path(_LOCAL).exists():
            session.runs(_LOCAL, f"rm {_LOCAL}")
        session.says("Done.")
        self.by_drain(kills=number % 5 == 0)


class _Covered(NamedTuple):
    """An event, the changes of the play that it covers, and all between the two comparisons."""

    event: dict[str, Any]
    truths: Sequence[Truth]
    between: Sequence[Truth]


class _Played(NamedTuple):
    """The changes of each file as the play made them and as the log has them."""

    files: dict[str, tuple[list[Truth], list[dict[str, Any]]]]
    covered: list[_Covered]
    digests: dict[str, str]
    killed: int
    died: int
    world: World


@pytest.fixture(scope="module", params=_SEEDS)
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[_Played]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        world = World.at(tmp_path_factory.mktemp("play"))
        monkeypatch.setenv("HOME", str(world.home))
        for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("REFLECTOR_MEMORY_USER", "true")
        monkeypatch.setattr(places, "_RACY_NS", 20_000_000)
        project = Project.at(world.root)
        project.make_state_dir()
        project.open_ledger().close()
        play = _Play(world, request.param)
        play.by_drain()
        for number in range(_SESSIONS):
            play.session(number)
        files = _by_file(world)
        covered = [*_covered_in(world, "project"), *_covered_in(world, "user")]
        digests = {file: world.digest(file) for file in files}
        yield _Played(files, covered, digests, play.killed, play.died, world)


def _by_file(world: World) -> dict[str, tuple[list[Truth], list[dict[str, Any]]]]:
    truths: dict[str, list[Truth]] = defaultdict(list)
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for truth in world.truths:
        truths[truth.file].append(truth)
    for event in [*world.events(), *world.events("user")]:
        events[event["file"]].append(event)
    return {file: (truths[file], events[file]) for file in truths}


def _covered_in(world: World, scope: str) -> list[_Covered]:
    """The events of a ledger, each with the changes between the same two comparisons."""
    events = world.events(scope)
    covered = []
    looks = world.looks[scope]
    for before, after in pairwise([(0, 0), *looks]):
        for file in {event["file"] for event in events[before[0] : after[0]]}:
            new = [event for event in events[before[0] : after[0]] if event["file"] == file]
            made = [t for t in world.truths[before[1] : after[1]] if t.file == file]
            covered += _aligned(new, made)
    return covered


def _aligned(events: Sequence[dict[str, Any]], truths: Sequence[Truth]) -> list[_Covered]:
    """Each event with the changes up to its content. One without changes is a step within a command
    of git, such as a rebase.
    """
    covered = []
    place = 0
    for event in events[:-1]:
        ends = [n for n in range(place, len(truths)) if truths[n].after == event["after"]]
        covered.append(_Covered(event, truths[place : ends[0] + 1] if ends else (), truths))
        place = ends[0] + 1 if ends else place
    return [*covered, _Covered(events[-1], truths[place:], truths)]


def test_events_of_a_file_are_a_chain(played: _Played) -> None:
    broken = [
        (file, number)
        for file, (_, events) in played.files.items()
        for number, (event, following) in enumerate(pairwise(events))
        if event["after"] != following["before"]
    ]
    assert broken == []


def test_chain_ends_with_present_content(played: _Played) -> None:
    ends = {file: events[-1]["after"] for file, (_, events) in played.files.items() if events}
    assert ends == {file: played.digests[file] for file in ends}


def test_kills_hit_drains(played: _Played) -> None:
    assert min(played.killed, played.died) >= 20


def test_undo_restores_each_digest(played: _Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of each file are taken back, the newest first, down to the first one."""
    monkeypatch.setenv("HOME", str(played.world.home))
    restored = list(_taken_back(played.world))
    assert len(restored) > 300
    assert [change.place for change, is_restored in restored if not is_restored] == []


def _taken_back(world: World) -> Iterator[tuple[Change, bool]]:
    """The changes with whether the file had the digest before each one after its undo."""
    home = Project.at(world.root)
    with ExitStack() as closing:
        stores = [
            Store(project, closing.enter_context(project.open_ledger()))
            for project in (home, Project.of_user())
        ]
        changes = changes_in(stores, world.root)
        for change in sorted(changes, key=lambda change: -change.event.position):
            if change.before or not change.fact("commit"):
                restore(plan_undo([change], "", only_lines=False))
                content = read_watched(change)
            else:
                content = None
                world.path(change.file).unlink()
            yield change, change.store.versions.is_version(change.before, content)


def _is_right(covered: _Covered) -> bool:
    """Whether the author of an event made its change. An agent has led to the content, or has added
    each of the lines: a command may have followed a hand edit of which there is no record. Git has
    led to the content, and `unknown` names nobody.
    """
    event, truths, between = covered
    made = [truth for truth in truths if truth.after == event["after"]]
    if event["by"] == "unknown":
        return True
    if event["by"] == "agent":
        own = [t.added for t in between if (t.by, t.session) == ("agent", event["session"])]
        is_last = any((t.by, t.session) == ("agent", event["session"]) for t in made)
        lines = {line["text"] for line in event["added"]}
        return is_last or (bool(own) and lines <= frozenset().union(*own))
    if event["by"] == "you":
        return all(truth.by in ("you", "stash") for truth in truths)
    if event["by"] == "commit":
        return not truths or bool(made)  # it has the line that somebody wrote before
    return not truths or any(truth.by in ("git", "stash") for truth in made)


def test_no_name_is_wrong(played: _Played) -> None:
    wrong = [covered for covered in played.covered if not _is_right(covered)]
    assert wrong == []


def test_changes_on_record_are_named(played: _Played) -> None:
    recorded = [
        (truth, covered.event["by"])
        for covered in played.covered
        for truth in covered.truths
        if truth.is_on_record
    ]
    unnamed = [truth for truth, by in recorded if by in ("unknown", "you")]
    assert len(recorded) > 300
    assert len(unnamed) <= 0.05 * len(recorded), f"{len(unnamed)} of {len(recorded)}"
