"""Files of trajectories: one JSON object, a list of them, or one on each line.

Invariant: each trajectory of a file is yielded, or an error that names the file, the line or item and what is wrong; a
bad one costs no other. Nothing longer than `MAX_ENTRY` is parsed.

A trajectory has the fields of `Trajectory`, and may have `ground_truth` and `test_report`, each a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from reflector.files import open_regular
from reflector.reflection.truth.models import Trajectory, faults_in

#: In bytes: of one trajectory, and of a file that is one document.
MAX_ENTRY = 8 << 20
_MAX_DOCUMENT = 64 << 20
_TRUTH = ("ground_truth", "test_report")


@dataclass(frozen=True, slots=True)
class Entry:
    """A trajectory as a file has it; the texts are None where it has none. `where` is its place."""

    where: str
    trajectory: Trajectory
    ground_truth: str | None
    test_report: str | None


def entries_in(path: Path) -> Iterator[Entry | str]:
    """Yield each trajectory of a file, in order; for what is not one, where it is and why. Raises OSError."""
    with open_regular(path) as file:
        raw = b"" if path.suffix.lower() in (".jsonl", ".ndjson") else file.read(_MAX_DOCUMENT + 1)
    first, _, more = raw.strip().partition(b"\n")
    if not first or len(raw) > _MAX_DOCUMENT or (more and isinstance(_json(first), dict)):
        yield from _lines(path)
    elif isinstance(document := _json(raw), list):
        for number, entry in enumerate(document, 1):
            yield _entry(f"{path}, item {number}", json.dumps(entry).encode())
    else:
        yield _entry(str(path), raw)


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _lines(path: Path) -> Iterator[Entry | str]:
    with open_regular(path) as file:
        number = 0
        while line := file.readline(MAX_ENTRY + 1):
            number += 1
            whole = line
            while len(line) > MAX_ENTRY and not line.endswith(b"\n"):  # the rest of a line that is refused
                line = file.readline(MAX_ENTRY + 1)
            if whole.strip():
                yield _entry(f"{path}, line {number}", whole)


def _entry(where: str, raw: bytes) -> Entry | str:
    if len(raw) > MAX_ENTRY:
        return f"{where}: is longer than {MAX_ENTRY >> 20} MiB; shorten the trajectory"
    try:
        text = raw.decode("utf-8-sig")
        entry = json.loads(text)
        trajectory = Trajectory.model_validate_json(text)
    except ValidationError as error:
        return f"{where}: is not a trajectory: {faults_in(error)}"
    except (ValueError, RecursionError) as error:
        return f"{where}: is not JSON in UTF-8: {error}"
    for key in _TRUTH:
        if not isinstance(entry.get(key), str | None):
            return f"{where}: {key} is not a text; write it as one, such as the output of the tests"
    return Entry(where, trajectory, *(entry.get(key) for key in _TRUTH))
