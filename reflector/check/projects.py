"""One table of all your projects, for a folder that is not a project: the files that agents load,
the rules, the recent sessions, and the number of rules to look at.

Invariant: no ledger is opened and nothing is written. If a project's settings or files cannot be
read, its row has no figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.audit.checked import Checked
from reflector.check.adapter import Judged, page_facts
from reflector.check.facts import PageFacts, Repeated
from reflector.check.page import HEIGHT, WIDTH
from reflector.check.plan import Look, Plan
from reflector.check.rows import rows_of
from reflector.git import repository
from reflector.locate import agent_folder
from reflector.mistakes import Mistake
from reflector.playbook_files.births import births_of
from reflector.playbook_files.watching import Advice, advice_of
from reflector.project import Project, project_of
from reflector.sessions import checks
from reflector.sessions.found_transcripts import FoundTranscript, every_transcript
from reflector.text.bounds import clean
from reflector.text.phrases import counted
from reflector.text.width import cut, filled, width

#: The number of days whose sessions are in the table.
_DAYS = 30
#: The lines of the page that are not rows of projects.
_OTHER_LINES = 6
_HEADER = ("PROJECT", "FILES", "RULES", "TOKENS", "SESSIONS", "LOOK AT")
_UNKNOWN = "-"
_NOTHING_JUDGED = Judged(Checked(()), {}, {}, 0)

Each = Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]]


class _Found(NamedTuple):
    """A project with its sessions and the facts of its page.

    facts  None if they cannot be read
    """

    root: Path
    sessions: Sequence[FoundTranscript]
    facts: PageFacts | None
    look_at: int

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        number = f"{len(self.sessions):,}"
        if self.facts is None:
            return _home_words(self.root), _UNKNOWN, _UNKNOWN, _UNKNOWN, number, _UNKNOWN
        files = self.facts.files
        look_at = f"{self.look_at:,}" if files or self.look_at else _UNKNOWN
        return (
            _home_words(self.root),
            _file_words(self.facts),
            f"{sum(file.rules for file in files):,}",
            f"{sum(file.tokens for file in files if not file.scope):,}",
            number,
            look_at,
        )


def is_outside(project: Project, advice: Advice) -> bool:
    """Return whether a folder is not a project.

    Such a folder is without a git repository, files that agents load, a ledger and sessions. Your
    home folder without a repository and a ledger is not a project either.
    """
    root = project.root.resolve()
    own = Path(agent_folder()).expanduser().parent.resolve()
    if (advice.lines and root != own) or repository(root)[1] or project.has_ledger():
        return False
    return root == own or not checks.project_sessions(project, {}, most=1, since=0.0, each=iter)


def project_table(each: Each, today: date) -> list[str]:
    """Return the lines of a table of your projects with recent sessions; none without projects."""
    oldest = (datetime.now(UTC) - timedelta(days=_DAYS)).timestamp()
    projects = [_found(root, sessions, today) for root, sessions in _sessions(each, oldest)]
    if not projects:
        return []
    projects.sort(key=lambda found: (-found.look_at, -len(found.sessions), str(found.root)))
    total = counted(len(projects), "project")
    shown = projects[: HEIGHT - _OTHER_LINES]
    rows = [_HEADER, *(found.cells() for found in shown), *_own_row(projects)]
    lines = [
        f"{total} with sessions in the last {_DAYS} days. Nothing was sent anywhere.",
        *_aligned(rows),
    ]
    if len(projects) > len(shown):
        lines.append(f"and {counted(len(projects) - len(shown), 'more project')}")
    lines += _repeated_line(projects)
    return [*lines, f"Next: cd {_shell_words(projects[0].root)} && reflector check"]


def _sessions(each: Each, oldest: float) -> Iterator[tuple[Path, list[FoundTranscript]]]:
    """Yield each project in which agents worked after a time, with its sessions."""
    by_root: dict[Path, list[FoundTranscript]] = defaultdict(list)
    for file in each(every_transcript()):
        with suppress(OSError, ValueError):
            folder = Path(file.cwd)
            if folder.is_dir() and file.path.stat().st_mtime >= oldest:
                by_root[project_of(folder.resolve())].append(file)
    yield from by_root.items()


def _found(root: Path, sessions: Sequence[FoundTranscript], today: date) -> _Found:
    try:
        project = Project.at(root)
        advice = advice_of(root)
        look = Look([*sessions], Plan(""), births_of(root, advice.lines, None))
        facts = page_facts(project, advice, look, _NOTHING_JUDGED)
    except (OSError, ValueError, Mistake):
        return _Found(root, sessions, None, 0)
    return _Found(root, sessions, facts, len(rows_of(facts, today)))


def _own_row(projects: Sequence[_Found]) -> Iterator[tuple[str, ...]]:
    """Yield the row of your own CLAUDE.md, which is loaded in every project."""
    path = Path(agent_folder()).expanduser() / "CLAUDE.md"
    with suppress(OSError):
        advice = advice_of(path.parent, [path]) if path.is_file() else None
        if advice is not None:
            number = sum(len(found.sessions) for found in projects)
            tokens = sum(advice.files.values())
            name = _home_words(path)
            yield "All projects", name, f"{len(advice.rules):,}", f"{tokens:,}", f"{number:,}", "-"


def _repeated_line(projects: Sequence[_Found]) -> Iterator[str]:
    """Yield the sentence that you repeat most often."""
    sentences: list[tuple[Repeated, str]] = [
        (repeated, found.root.name)
        for found in projects
        if found.facts is not None
        for repeated in found.facts.repeated
    ]
    if sentences:
        repeated, name = max(sentences, key=lambda pair: pair[0].sessions)
        number = counted(repeated.sessions, "session")
        yield cut(f'You repeat most often: "{repeated.words}" ({number} of {name})', WIDTH)


def _file_words(facts: PageFacts) -> str:
    names = [file.name for file in facts.files]
    if not names:
        return "none"
    return names[0] if len(names) == 1 else f"{names[0]}, {len(names) - 1} more"


def _home_words(path: Path) -> str:
    """Return a path as you type it, on one line."""
    home = Path("~").expanduser()
    words = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    return clean(words, len(words))


def _shell_words(path: Path) -> str:
    """Return a path for a shell. A quoted ~ would not be your home folder, so ~ is not quoted."""
    words = _home_words(path)
    return f"~/{quote(words[2:])}" if words.startswith("~/") else quote(words)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as a table of `WIDTH` columns. Numbers are right-aligned, long texts are cut."""
    widths = [max(width(row[column]) for row in rows) for column in range(len(_HEADER))]
    spare = WIDTH - sum(widths[2:]) - 2 * (len(_HEADER) - 1)
    widths[0] = min(widths[0], max(spare - widths[1], spare // 2))
    widths[1] = min(widths[1], spare - widths[0])
    for row in rows:
        cells = [filled(cell, widths[column]) for column, cell in enumerate(row[:2])]
        cells += [f"{cell:>{widths[column]}}" for column, cell in enumerate(row[2:], start=2)]
        yield "  ".join(cells).rstrip()
