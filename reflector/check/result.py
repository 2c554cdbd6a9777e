"""The answer of a check: each line with the findings about it, those against a line first.

Invariant: a line without a judge's answer is never called followed or broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from reflector.audit.checked import TOO_FEW, Checked, CheckedLine, checked_lines
from reflector.check.plan import Look, open_or_empty
from reflector.playbook.bullet import Bullet
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook_files.watching import Advice, Line, watching
from reflector.project import Project
from reflector.reflection.checking import unanswered
from reflector.sessions import checks, history
from reflector.sessions.history import FoundTranscript
from reflector.text.words import context_tokens
from reflector.transcripts.readers import stores


@dataclass(frozen=True, slots=True)
class LineJson:
    """A line of a file and the findings about it; `name` and `judged` are null before a judge was
    asked about it.

    place     its file and line
    quotes, act  the commands that show its quotes and that change it
    """

    place: str
    name: str | None
    text: str
    tokens: int
    judged: CheckedLine | None = None
    quotes: str | None = None
    act: str | None = None


@dataclass(frozen=True, slots=True)
class LinesJson:
    """The answer of `check`.

    files      the files with their tokens at each start
    scopes     the patterns of files at which a file is loaded, if it is not loaded at each start
    left_out   text that is not a line, and files and imports that were not read
    sessions   how many transcripts of the project were looked at, by agent
    compressed  how many transcripts of any project cannot be read, by agent
    questions  how many are left to ask, with at most `tokens`, and `price` in USD if it is known
    lacks      the command that gets a judge; null if there is one
    unanswered  how many sessions have no answer and are not asked about again automatically
    found      the findings of judges so far; null if no judge was asked
    """

    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    left_out: list[str]
    sessions: Mapping[str, int]
    compressed: Mapping[str, int]
    questions: int
    tokens: int
    price: str | None
    lacks: str | None
    lines: list[LineJson]
    alike: list[Pair]
    failed: list[str]
    unanswered: int = 0
    found: Checked | None = None


def answer_of(
    project: Project,
    advice: Advice,
    look: Look,
    ran: checks.Ran,
    command: Callable[..., str],
) -> LinesJson:
    """Return the answer of a check; `command` writes a command of this playbook for a terminal."""
    found = _findings(project, advice.lines)
    rows = [_row(line, found.by_line.get(line), command) for line in advice.lines]
    bullets = [
        Bullet(row.place, line.section, row.text)
        for row, line in zip(rows, advice.lines, strict=True)
    ]
    price = look.plan.price
    return LinesJson(
        files=advice.files,
        scopes=advice.scopes,
        left_out=[*advice.omitted],
        sessions=by_agent(look.sessions),
        compressed={title: len(paths) for title, paths in compressed_files().items()},
        questions=look.plan.questions - ran.asked,
        tokens=look.plan.tokens,
        price=None if price is None else f"{price:.2f}",
        lacks=look.plan.lacks or None,
        lines=sorted(rows, key=urgency),
        alike=duplicates(bullets),
        failed=ran.failed,
        unanswered=found.unanswered,
        found=found.checked if found.checked.requests else None,
    )


def by_agent(files: Iterable[FoundTranscript]) -> Mapping[str, int]:
    """Return how many transcripts there are of each agent."""
    return Counter(checks.reader_of(file).name for file in files)


def compressed_files() -> dict[str, list[Path]]:
    """Return the transcripts that cannot be read, by agent."""
    files: dict[str, list[Path]] = {}
    for store in stores():
        if paths := history.compressed([store.kept.folder]):
            files.setdefault(store.reader.name, []).extend(paths)
    return files


class _Findings(NamedTuple):
    checked: Checked
    by_line: Mapping[Line, CheckedLine]
    unanswered: int


def _findings(project: Project, lines: Sequence[Line]) -> _Findings:
    """Return the findings about these lines, and how many sessions have no answer and are not asked
    about again automatically.
    """
    with open_or_empty(project) as ledger:
        watched = watching(ledger, lines, first=project.first_number).lines
        checked = checked_lines(ledger, names=watched)
        troubles = [trouble for _, trouble in unanswered(ledger)]
    by_line = {watched[line.name]: line for line in checked.lines}
    attempts = project.config.max_attempts
    return _Findings(checked, by_line, sum(trouble.is_over(attempts) for trouble in troubles))


def _row(line: Line, judged: CheckedLine | None, command: Callable[..., str]) -> LineJson:
    place = f"{line.file}:{line.number}"
    is_rule = judged is not None and judged.status == "live"
    return LineJson(
        place,
        judged.name if judged else None,
        line.text,
        context_tokens(line.text),
        judged,
        command("blame", judged.name) if judged and judged.relevant else None,
        command("edit", judged.name) if judged and is_rule else f"edit {place}",
    )


class Urgency(IntEnum):
    """The order of rows: those that are against a line first."""

    AGAINST = 0
    MORE_AGAINST = 1
    FOR = 2
    UNSEEN = 3
    TOO_FEW = 4
    UNKNOWN = 5


def urgency(row: LineJson) -> tuple[Urgency, float]:
    """Return the key by which rows are sorted; within one urgency the most evidence comes first, of
    unseen lines the most tokens.
    """
    judged = row.judged
    if judged is None or not judged.sessions:
        return Urgency.UNKNOWN, 0
    if not judged.relevant:
        return Urgency.UNSEEN, -judged.tokens
    answers = (judged.followed, judged.helped)
    evidence = -max(answer.evidence for answer in answers)
    if judged.result == TOO_FEW:
        is_against = any(answer.no > answer.yes for answer in answers)
        return (Urgency.MORE_AGAINST if is_against else Urgency.TOO_FEW), -judged.relevant
    return (Urgency.AGAINST if is_broken(judged.result) else Urgency.FOR), evidence


def is_broken(result: str) -> bool:
    """Return whether a result is against its line."""
    return "not followed" in result or "harmful" in result
