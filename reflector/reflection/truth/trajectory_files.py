"""Files of trajectories: one JSON object, a list of them, or one on each line.

Invariant: each trajectory of a file is yielded, or what is wrong with it; a bad one costs no other. Nothing longer than
`MAX_ENTRY` is parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from reflector.files import read_bounded
from reflector.reflection.truth.models import Trajectory, faults_in

#: In bytes: of one trajectory, and of a file.
MAX_ENTRY = 8 << 20
_MAX_FILE = 256 << 20


class Entry(Trajectory):
    """A trajectory with the right answer and what the tests said, where its file has them."""

    ground_truth: str | None = None
    test_report: str | None = None

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory alone."""
        return Trajectory(**self.model_dump(include=set(Trajectory.model_fields)))


def entries_in(path: Path) -> Iterator[tuple[str, Entry | str]]:
    """Yield (its place, each trajectory of a file), in order; for what is not one, why. Raises OSError."""
    raw = read_bounded(path, _MAX_FILE)
    first, _, more = raw.strip().partition(b"\n")
    if path.suffix.lower() in (".jsonl", ".ndjson") or not first or (more and isinstance(_json(first), dict)):
        for number, line in enumerate(raw.split(b"\n"), 1):
            if line.strip():
                yield f"{path}, line {number}", _entry(line)
    elif isinstance(document := _json(raw), list):
        for number, entry in enumerate(document, 1):
            yield f"{path}, item {number}", _entry(json.dumps(entry).encode())
    else:
        yield str(path), _entry(raw)


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


def _entry(raw: bytes) -> Entry | str:
    if len(raw) > MAX_ENTRY:
        return f"is longer than {MAX_ENTRY >> 20} MiB; shorten the trajectory"
    try:
        text = raw.decode("utf-8-sig")
        json.loads(text)  # whose errors name the place
        return Entry.model_validate_json(text)
    except ValidationError as error:
        return f"is not a trajectory: {faults_in(error)}"
    except (ValueError, RecursionError) as error:
        return f"is not JSON in UTF-8: {error}"
