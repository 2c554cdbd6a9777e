"""When lines were in force: generated histories, whose truth a model of its own keeps."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from reflector.playbook_files.births import LineState, births_of
from reflector.playbook_files.watching import PLAYBOOK, Line, advice_of
from tests.conftest import first_fast

_FIRST = datetime(2025, 3, 1, tzinfo=UTC)
_WORDS = ["".join(letters) for letters in product("bdfgklmnprst", "aeiou", "lmnrst")]
STEPS = (
    "add remove add_again reword replace move_in_file move_to_file rename amend branch pull rebase"
).split()
#: Those whose commits have the dates of their arrival.
DATED = STEPS[:8]
ENDS = ("committed", "uncommitted", "cloned", "shallow", "no_git", "no_reflog")


def _later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def git(folder: Path, *words: str, at: datetime) -> None:
    stamp = f"{at.timestamp():.0f} +0000"
    user = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@y.z"}
    user |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in user.items()}
    dates = {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
    subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-C", str(folder), *words],
        env={**os.environ, **user, **dates, "GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
        capture_output=True,
    )


@dataclass
class Model:
    """A clone and its upstream, changed step by step, and what was true of each line.

    files    the lines at HEAD, by file; `texts` their words
    heads    the lines at HEAD from each time on
    written  when the commit with a line was written; none if it may be older
    """

    drawn: random.Random
    folder: Path
    now: datetime = _FIRST
    files: dict[str, list[int]] = field(default_factory=dict)
    texts: dict[int, list[str]] = field(default_factory=dict)
    heads: list[tuple[datetime, frozenset[int]]] = field(default_factory=list)
    written: dict[int, datetime | None] = field(default_factory=dict)
    times: list[datetime] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    own: str = "CLAUDE.md"
    committed: datetime = _FIRST

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def upstream(self) -> Path:
        return self.folder / "upstream"

    def begin(self) -> None:
        """Make the upstream with some lines, and clone it."""
        self.upstream.mkdir()
        git(self.upstream, "init", at=self.now)
        for file in (self.own, ".claude/rules/team.md", ".claude/rules/topic.md"):
            self.files[file] = [self.new_line(), self.new_line()]
            self.write(self.upstream, file)
        self.written = dict.fromkeys(self.texts)
        self.commit(self.upstream)
        self.tick()
        git(self.folder, "clone", str(self.upstream), "work", at=self.now)
        self.arrive()

    def tick(self) -> None:
        self.now += timedelta(minutes=self.drawn.randint(10, 6000))
        self.times.append(self.now)

    def present(self) -> frozenset[int]:
        return frozenset(line for lines in self.files.values() for line in lines)

    def arrive(self) -> None:
        self.heads.append((self.now, self.present()))

    def new_line(self) -> int:
        line = len(self.texts)
        self.texts[line] = [f"{line}x", *self.drawn.sample(_WORDS, 11)]
        self.written[line] = self.now
        return line

    def write(self, folder: Path, file: str) -> None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [f"- {' '.join(self.texts[line])}." for line in self.files[file]]
        path.write_text("\n".join(["# Rules", "", *rows, ""]))

    def commit(self, folder: Path, *words: str) -> None:
        git(folder, "add", "-A", at=self.now)
        git(folder, "commit", "--allow-empty", "-m", "x", *words, at=self.now)

    def save(self, *files: str) -> None:
        """Commit files in the clone."""
        for file in files:
            self.write(self.work, file)
        self.commit(self.work)
        self.committed = self.now
        self.arrive()

    def own_line(self) -> int:
        return self.drawn.choice(self.files[self.own])

    def add(self) -> None:
        place = self.drawn.randint(0, len(self.files[self.own]))
        self.files[self.own].insert(place, self.new_line())
        self.save(self.own)

    def remove(self) -> None:
        self.add()
        self.tick()
        line = self.own_line()
        self.files[self.own].remove(line)
        self.gone.append(line)
        self.save(self.own)

    def add_again(self) -> None:
        self.remove()
        self.tick()
        self.files[self.own].append(self.gone.pop())
        self.save(self.own)

    def reword(self) -> None:
        words = self.texts[self.own_line()]
        words[self.drawn.randrange(1, len(words))] = f"{len(self.times)}y"
        self.save(self.own)

    def replace(self) -> None:
        self.files[self.own][-1] = self.new_line()
        self.save(self.own)

    def move_in_file(self) -> None:
        self.drawn.shuffle(self.files[self.own])
        self.save(self.own)

    def move_to_file(self) -> None:
        self.add()
        self.tick()
        self.files[".claude/rules/topic.md"].append(self.files[self.own].pop())
        self.save(self.own, ".claude/rules/topic.md")

    def rename(self) -> None:
        name = "AGENTS.md" if self.own == "CLAUDE.md" else "CLAUDE.md"
        git(self.work, "mv", self.own, name, at=self.now)
        self.files[name] = self.files.pop(self.own)
        self.own = name
        self.save()

    def amend(self) -> None:
        self.add()
        self.tick()
        line = self.new_line()
        self.written[line] = self.committed
        self.files[self.own].append(line)
        self.write(self.work, self.own)
        git(self.work, "commit", "-a", "--amend", "-m", "x", at=self.now)
        self.arrive()

    def branch(self) -> None:
        """Add a line on a branch, go back, and merge it later."""
        git(self.work, "checkout", "-b", f"topic{len(self.times)}", at=self.now)
        topic = ".claude/rules/topic.md"
        self.files[topic].append(self.new_line())
        self.save(topic)
        self.tick()
        line = self.files[topic].pop()
        git(self.work, "checkout", "main", at=self.now)
        self.arrive()
        self.tick()
        self.add()
        self.tick()
        self.files[topic].append(line)
        git(self.work, "merge", "--no-edit", f"topic{self._topic()}", at=self.now)
        self.arrive()

    def _topic(self) -> str:
        heads = (self.work / ".git/refs/heads").glob("topic*")
        return str(max(int(head.name.removeprefix("topic")) for head in heads))

    def _team_line(self) -> None:
        """Commit a line upstream; it is not in the clone yet."""
        team = ".claude/rules/team.md"
        self.files[team].append(self.new_line())
        self.write(self.upstream, team)
        self.commit(self.upstream)
        self.tick()

    def pull(self) -> None:
        self._team_line()
        git(self.work, "pull", "--no-rebase", "--no-edit", at=self.now)
        self.arrive()

    def rebase(self) -> None:
        team = ".claude/rules/team.md"
        before = list(self.files[team])
        self._team_line()
        after = self.files[team]
        self.files[team] = before
        self.add()
        self.tick()
        self.files[team] = after
        git(self.work, "pull", "--rebase", at=self.now)
        self.arrive()

    def expected(self, line: int, time: datetime) -> LineState:
        """Return how a line stood for a session that started at a time."""
        present = [lines for since, lines in self.heads if since <= time]
        if present and line in present[-1]:
            return LineState.SINCE
        written = self.written[line]
        arrived = [since for since, lines in self.heads if line in lines]
        if (written is None or written <= time) and (not arrived or time < arrived[0]):
            return LineState.UNKNOWN
        return LineState.BEFORE

    def probes(self) -> Iterator[datetime]:
        """Yield times around and between all changes."""
        times = sorted({_FIRST, *self.times})
        yield times[0] - timedelta(days=9)
        for time in times:
            yield time + timedelta(minutes=5)
        yield times[-1] + timedelta(days=9)

    def end(self, kind: str) -> Path:
        """Leave the project as the kind of history has it; return its folder."""
        if kind == "uncommitted":
            line = self.new_line()
            self.written[line] = None
            self.files[self.own].append(line)
            self.write(self.work, self.own)
        elif kind in ("cloned", "shallow"):
            depth = ["--depth=1"] if kind == "shallow" else []
            git(self.folder, "clone", *depth, self.work.as_uri(), "later", at=self.now)
            self.heads.clear()
            self.arrive()
        elif kind == "no_git":
            shutil.rmtree(self.work / ".git")
            self.heads.clear()
        elif kind == "no_reflog":
            shutil.rmtree(self.work / ".git/logs")
            self.heads.insert(0, (_FIRST, self.heads[0][1]))  # no sign of the clone is left
        if kind in ("shallow", "no_git"):
            self.written = dict.fromkeys(self.texts)
        return self.folder / "later" if kind in ("cloned", "shallow") else self.work


def _seeds() -> Iterator[object]:
    for seed in range(10):
        for kind in ENDS:
            slow = [pytest.mark.slow] if seed else []
            yield pytest.param(kind, seed, marks=slow, id=f"{kind}-{seed}")


@pytest.mark.parametrize(("kind", "seed"), first_fast(3, [*_seeds()]))
def test_state_is_that_of_the_model(kind: str, seed: int, tmp_path: Path) -> None:
    model = Model(random.Random(f"{kind} {seed}"), tmp_path)
    model.begin()
    steps = STEPS if kind != "no_reflog" else DATED
    for step in model.drawn.choices(steps, k=8):
        model.tick()
        getattr(model, step)()
    root = model.end(kind)
    lines = {" ".join(model.texts[line]): line for line in model.present()}
    advice = advice_of(root).lines
    assert {line.text.rstrip(".") for line in advice} == lines.keys()
    births = births_of(root, advice)
    assert [
        (line.text, time, births.state_of(line, time)) for line in advice for time in model.probes()
    ] == [
        (line.text, time, model.expected(lines[line.text.rstrip(".")], time))
        for line in advice
        for time in model.probes()
    ]
    assert {births.state_of(line, _later()) for line in advice} == {LineState.SINCE}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with one line, which was committed long ago."""
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", at=_FIRST)
    (folder / "CLAUDE.md").write_text("- Run the tests before you commit.\n")
    save(folder, _FIRST)
    return folder


def save(folder: Path, at: datetime) -> None:
    git(folder, "add", "-A", at=at)
    git(folder, "commit", "-m", "x", at=at)


def states(folder: Path, *times: datetime) -> dict[str, list[LineState]]:
    lines = advice_of(folder).lines
    births = births_of(folder, lines)
    return {line.text: [births.state_of(line, time) for time in times] for line in lines}


_DAYS = [_FIRST + timedelta(days=day) for day in range(10)]
_PROGRAMS = (
    "core.fsmonitor core.pager core.sshCommand gpg.program diff.external diff.x.textconv "
    "diff.x.command filter.x.smudge filter.x.clean"
).split()


def test_no_program_of_the_repository_runs(work: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark.sh"
    mark.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    mark.chmod(0o755)
    (work / ".gitattributes").write_text("*.md diff=x filter=x\n")
    save(work, _DAYS[1])
    for name in ("post-index-change", "reference-transaction"):
        (work / ".git/hooks" / name).symlink_to(mark)
    for setting in _PROGRAMS:
        git(work, "config", setting, str(mark), at=_DAYS[1])
    git(work, "config", "log.showSignature", "true", at=_DAYS[1])
    (tmp_path / "ran").unlink(missing_ok=True)
    assert states(work, _DAYS[0], _DAYS[2]) == {
        "Run the tests before you commit.": [LineState.SINCE] * 2
    }
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("source", "state"), [("AGENTS.md", LineState.SINCE), ("README.md", LineState.UNKNOWN)]
)
def test_moved_line_was_in_force_if_loaded(work: Path, source: str, state: LineState) -> None:
    line = "- Keep the changelog in step."
    (work / source).write_text(f"{line}\n- Something else that stays there.\n")
    save(work, _DAYS[1])
    (work / source).write_text("- Something else that stays there.\n")
    (work / "CLAUDE.md").write_text(f"- Run the tests before you commit.\n{line}\n")
    save(work, _DAYS[3])
    assert states(work, _DAYS[2])[line[2:]] == [state]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Run all the tests before you commit.", LineState.SINCE),
        ("Run the linter and then push it all.", LineState.BEFORE),
        ("Never run the tests before you commit.", LineState.BEFORE),
    ],
)
def test_light_rewording_keeps_the_birth(work: Path, text: str, state: LineState) -> None:
    (work / "CLAUDE.md").write_text(f"- {text}\n")
    save(work, _DAYS[2])
    assert states(work, _DAYS[1]) == {text: [state]}


def test_line_beside_a_like_one_is_new(work: Path) -> None:
    likes = "- Run the tests before you commit.\n- Run the linter before you commit.\n"
    (work / "CLAUDE.md").write_text(likes)
    save(work, _DAYS[2])
    assert states(work, _DAYS[1]) == {
        "Run the tests before you commit.": [LineState.SINCE],
        "Run the linter before you commit.": [LineState.BEFORE],
    }


def test_line_beside_a_similar_one_is_new(work: Path) -> None:
    new = "- Run the linter before you commit.\n"
    for day, text in ((2, f"- Run the tests before you commit.\n{new}"), (4, new)):
        (work / "CLAUDE.md").write_text(text)
        save(work, _DAYS[day])
    assert states(work, _DAYS[1], _DAYS[3]) == {new[2:-1]: [LineState.BEFORE, LineState.SINCE]}


def test_gap_in_the_reflog_is_unknown(work: Path) -> None:
    for day in (2, 4):
        (work / "notes.txt").write_text(f"{day}")
        save(work, _DAYS[day])
    reflog = work / ".git/logs/HEAD"
    first, _, *rest = reflog.read_text().splitlines(keepends=True)
    reflog.write_text("".join([first, *rest]))
    line = "Run the tests before you commit."
    assert LineState.UNKNOWN in states(work, _DAYS[1], _DAYS[3])[line]


@pytest.mark.parametrize("has_reflog", [True, False])
def test_clock_that_went_back_keeps_the_ages(work: Path, has_reflog: bool) -> None:
    new = "Never push to the main branch."
    for day, added in ((3, f"- {new}\n"), (1, "- Ask first.\n"), (7, "")):
        with (work / "CLAUDE.md").open("a") as file:
            file.write(added)
        (work / "notes.txt").write_text(f"{day}")
        save(work, _DAYS[day])
    if not has_reflog:
        (work / ".git/logs/HEAD").unlink()
    courses = states(work, *(_DAYS[day] for day in (0, 2, 4, 6, 8)))
    since, before, unknown = LineState.SINCE, LineState.BEFORE, LineState.UNKNOWN
    assert courses["Run the tests before you commit."] == [since] * 5
    assert courses[new] == [before, unknown, since, since, since]
    assert courses["Ask first."][:4] == [before] + [unknown] * 3


def test_file_outside_the_repository_counts_from_its_write(work: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text("- Keep answers short.\n")
    (line,) = advice_of(work, [path]).lines
    births = births_of(work, [line])
    assert births.state_of(line, _DAYS[3]) is LineState.UNKNOWN
    assert births.state_of(line, _later()) is LineState.SINCE


@pytest.mark.parametrize("is_file_last", [False, True])
def test_playbook_decides_about_equal_words(work: Path, is_file_last: bool) -> None:
    (line,) = advice_of(work).lines
    rule = line._replace(file=PLAYBOOK)
    births = births_of(work, [rule, line] if is_file_last else [line, rule])
    assert births.state_of(line, _FIRST - timedelta(days=900)) is LineState.SINCE


def test_start_that_is_not_known_is_unknown(work: Path) -> None:
    (line,) = advice_of(work).lines
    assert births_of(work, [line]).state_of(line, None) is LineState.UNKNOWN


def test_answer_of_git_is_kept_until_head_moves(work: Path, tmp_path: Path) -> None:
    lines = advice_of(work).lines
    first = births_of(work, lines, tmp_path)
    kept = (tmp_path / "births.json").read_bytes()
    for blob in filter(Path.is_file, (work / ".git/objects").rglob("*")):
        blob.unlink()  # only HEAD and its reflog are read again
    assert births_of(work, lines, tmp_path) == first
    reflog = work / ".git/logs/HEAD"
    reflog.write_text(reflog.read_text() * 2)
    assert births_of(work, lines, tmp_path) != first
    assert (tmp_path / "births.json").read_bytes() == kept


def test_answers_to_two_questions_are_kept(work: Path, tmp_path: Path) -> None:
    line, *others = advice_of(work).lines
    questions = ([line], [line, *others, line._replace(text="Another line.")])
    first = [births_of(work, lines, tmp_path) for lines in questions]
    for blob in filter(Path.is_file, (work / ".git/objects").rglob("*")):
        blob.unlink()
    assert [births_of(work, lines, tmp_path) for lines in questions] == first


def test_file_that_was_never_committed_is_unknown(work: Path) -> None:
    shutil.rmtree(work / ".git/logs")
    (work / "CLAUDE.md").rename(work / "AGENTS.md")
    (work / "AGENTS.md").write_text("- Keep answers short.\n")
    assert states(work, _DAYS[3]) == {"Keep answers short.": [LineState.UNKNOWN]}


def test_reflog_that_ended_is_unknown(work: Path) -> None:
    reflog = work / ".git/logs/HEAD"
    before = reflog.read_text()
    line = (work / "CLAUDE.md").read_text()
    for day, text in ((2, "- Keep answers short.\n"), (4, line)):
        (work / "CLAUDE.md").write_text(text)
        save(work, _DAYS[day])
    reflog.write_text(before)
    assert states(work, _DAYS[3]) == {line[2:-1]: [LineState.UNKNOWN]}


@pytest.mark.parametrize(
    ("added_at", "expected"),
    [
        ("", [LineState.SINCE, LineState.SINCE]),
        (_DAYS[1].isoformat(), [LineState.BEFORE, LineState.SINCE]),
    ],
)
def test_rule_of_playbook_counts_since_it_was_written(
    tmp_path: Path, added_at: str, expected: list[LineState]
) -> None:
    line = Line(PLAYBOOK, 1, "pat", "Use rg, not grep", "pat-001", added_at=added_at)
    births = births_of(tmp_path, [line]).as_written([line])
    assert [births.state_of(line, day) for day in (_DAYS[0], _DAYS[2])] == expected
