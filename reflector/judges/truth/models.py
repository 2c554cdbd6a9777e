"""The values of reflection with ground truth (requirements B.1), as strict pydantic models, and
files of trajectories.

Invariant: a value is kept exactly as it was given, or it is refused. Nothing is converted, and JSON
preserves it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from reflector.files import read_bounded
from reflector.playbook.bullet import Verdict

_MAX_FILE = 256 << 20


def _now() -> datetime:
    return datetime.now(UTC)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class Trajectory(_Strict):
    """One run at a task: its question and answer, its steps and the bullets that it used, in order
    of use.
    """

    query: str
    dataset: str
    generated_answer: str
    reasoning_steps: list[str]
    used_bullet_ids: list[str]
    status: Literal["success", "failure"]
    error_message: str | None = None
    created_at: datetime = Field(default_factory=_now)


class Bullet(_Strict):
    """One piece of advice with its counters."""

    id: str
    section: str
    content: str
    searchable_text: str
    keywords: list[str] = Field(default_factory=list)
    helpful: int = Field(default=0, ge=0)
    harmful: int = Field(default=0, ge=0)
    source_trajectory: str = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def confidence_score(self) -> float:
        """The share of helpful among all counts; 0.5 without any."""
        total = self.helpful + self.harmful
        return self.helpful / total if total else 0.5


class PlaybookMetadata(_Strict):
    """When a playbook was made and last changed."""

    created_at: datetime = Field(default_factory=_now)
    updated_at: datetime = Field(default_factory=_now)


class Playbook(_Strict):
    """The bullets of one dataset."""

    metadata: PlaybookMetadata = Field(default_factory=PlaybookMetadata)
    bullets: list[Bullet] = Field(default_factory=list)


class Insight(_Strict):
    """One insight from a trajectory."""

    reasoning: str
    error_identification: str
    root_cause_analysis: str
    correct_approach: str
    key_insight: str


class BulletEvaluation(_Strict):
    """A verdict on one bullet that the trajectory used."""

    bullet_id: str
    tag: Verdict
    reason: str


class ReflectionResult(_Strict):
    """The result of a reflection: the insights of its last good iteration and a verdict for each
    bullet that it could judge.
    """

    insights: list[Insight]
    bullet_evaluations: list[BulletEvaluation]
    trajectory_query: str
    trajectory_dataset: str
    iteration_count: int = 1


class DeltaContextItem(_Strict):
    """One change that a curator asks for."""

    type: Literal["ADD", "UPDATE", "DELETE"]
    section: str
    bullet_id: str | None
    content: str
    reasoning: str


class CurationResult(_Strict):
    """The changes that a curator asked for, and the number of bullets before and after."""

    deltas: list[DeltaContextItem]
    bullets_before: int
    bullets_after: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def summary(self) -> str:
        """The number of changes of each type in a line."""
        counts = Counter(delta.type for delta in self.deltas)
        return ", ".join(f"{type_}: {counts[type_]}" for type_ in ("ADD", "UPDATE", "DELETE"))


def faults_in(error: ValidationError) -> str:
    """Return the faults without the values, which may be long or secret."""
    return "; ".join(
        (f"{'.'.join(map(str, one['loc'])) or 'entry'}: {one['msg']}") for one in error.errors()[:5]
    )


class Entry(Trajectory):
    """A trajectory with the right answer and the reports of the tests, if its file has them."""

    ground_truth: str | None = None
    test_report: str | None = None

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory alone."""
        return Trajectory(**self.model_dump(include=set(Trajectory.model_fields)))


def entries_in(path: Path) -> Iterator[tuple[str, Entry | str]]:
    """Yield (place, trajectory) for each entry of a file, in order; if an entry is not a
    trajectory, (place, reason).

    A file is JSON: a trajectory or a list of them. If its name ends with .jsonl or .ndjson, it has
    one on each line.

    Raises: OSError.
    """
    text = read_bounded(path, _MAX_FILE).decode("utf-8-sig", "surrogateescape")
    pieces = [(str(path), text)]
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        pieces = [
            (f"{path}, line {number}", line)
            for number, line in enumerate(text.split("\n"), 1)
            if line.strip()
        ]
    for where, piece in pieces:
        try:
            found = json.loads(piece)
        except (ValueError, RecursionError) as error:
            yield where, f"is not JSON in UTF-8: {error}"
            continue
        for number, entry in enumerate(found if isinstance(found, list) else [found], 1):
            place = f"{where}, item {number}" if isinstance(found, list) else where
            try:
                yield place, Entry.model_validate_json(json.dumps(entry))
            except ValidationError as error:
                yield place, f"is not a trajectory: {faults_in(error)}"
