"""The free counts of `check`: rules in the transcripts of a project, at the first and the second
reading.

The floor is `json.loads` of every line of the same files. Each run includes the search for the
transcripts. The start of the process and the page are not included.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path

from benchmarks.harness import Row, paired_ratio, timed
from benchmarks.made_transcript import write_transcript
from reflector.check.counting import counts_of
from reflector.check.plan import Typed
from reflector.counts.rules import rule_of
from reflector.project import Project
from reflector.sessions.found_transcripts import find_transcripts

_MB = 1024 * 1024
_RULES = [
    form.format(word=word, number=number)
    for number, word in enumerate(
        "parser value module test client buffer record folder index handle result reader query"
        " config state".split()
    )
    for form in (
        "Run `make {word}` before you commit.",
        "Never use `{word}.join` in `src/{word}/`.",
        "Use {word}_{number}, not {word}Old.",
        "Answer each {word} comment in its own thread.",
        "Keep every {word} below {number}00 lines.",
    )
]


def rows(quick: bool) -> list[Row]:
    """Measure a first run that reads the transcripts, and a second one that reads the kept
    answers.
    """
    with tempfile.TemporaryDirectory() as name, _at_home(Path(name)):
        folder = Path(name)
        sessions = folder / "sessions"
        sessions.mkdir()
        number_of_sessions = 4 if quick else 20
        for number in range(number_of_sessions):
            write_transcript(sessions / f"s-{number}.jsonl", 3 * _MB)
        project = Project.at(folder / "project")
        with project.open_ledger():
            pass
        floor = timed(partial(_parse_all, sessions))
        pairs = 3 if quick else 9
        first = paired_ratio(floor, timed(partial(_count_first, project, sessions)), pairs)
        second = paired_ratio(floor, timed(partial(_count, project, sessions)), pairs)
    size = f"{len(_RULES)} rules, {number_of_sessions} sessions of 3 MB"
    note = "floor: `json.loads` of every line"
    return [
        Row(f"counts of {size}, first run", *first, 4, note),
        Row(f"counts of {size}, second run", *second, 0.2, note),
    ]


@contextmanager
def _at_home(folder: Path) -> Iterator[None]:
    """Make the ledger belong to a user whose home is this folder."""
    home = os.environ.get("HOME")
    os.environ["HOME"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("HOME")
        if home is not None:
            os.environ["HOME"] = home


def _parse_all(folder: Path) -> None:
    for session in folder.iterdir():
        with BufferedReader(FileIO(session), _MB) as file:
            for line in file:
                json.loads(line)


def _count_first(project: Project, folder: Path) -> None:
    project.keep("counts.json", None)
    _count(project, folder)


def _count(project: Project, folder: Path) -> None:
    sessions = list(find_transcripts(folder))
    counts_of(project, map(rule_of, _RULES), sessions, lambda *_: "since", Typed())
