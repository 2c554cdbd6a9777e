"""The judge `rules`: the findings of `reflector/judges/rules/`, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import Config
from reflector.judges.kind import JudgeKind

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


def _build(config: Config, _: Path | None) -> Backend:
    from reflector.judges.rules.judge import RulesBackend

    return RulesBackend(wrong_counts=config.wrong_counts)


JUDGE = JudgeKind(
    name="rules",
    title="the built-in judge",
    build=_build,
    rereads=True,
    settings=("wrong_counts",),
)
