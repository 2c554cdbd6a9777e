"""Reflection on tasks that have a right answer: the public names (docs/embedding.md)."""

from reflector.embed.ground_truth import (
    LedgerPlaybooks,
    ReflectorAgent,
    llm_client,
)
from reflector.judges.truth.models import (
    Bullet,
    BulletEvaluation,
    CurationResult,
    DeltaContextItem,
    Insight,
    Playbook,
    PlaybookMetadata,
    ReflectionResult,
    Trajectory,
)
from reflector.judges.truth.questions import (
    Prompt,
    ReflectorPromptBuilder,
)
from reflector.project import DatasetRefused

__all__ = [
    "Bullet",
    "BulletEvaluation",
    "CurationResult",
    "DatasetRefused",
    "DeltaContextItem",
    "Insight",
    "LedgerPlaybooks",
    "Playbook",
    "PlaybookMetadata",
    "Prompt",
    "ReflectionResult",
    "ReflectorAgent",
    "ReflectorPromptBuilder",
    "Trajectory",
    "llm_client",
]
