"""Reflection on tasks that have a right answer: the public names (docs/embedding.md)."""

from __future__ import annotations

from reflector.reflection.truth.agent import (
    BackendClient,
    LedgerPlaybooks,
    PlaybookStore,
    ReflectorAgent,
    llm_client,
)
from reflector.reflection.truth.builder import Prompt, PromptBuilder, ReflectorPromptBuilder
from reflector.reflection.truth.datasets import DatasetRefused
from reflector.reflection.truth.models import (
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

__all__ = [
    "BackendClient",
    "Bullet",
    "BulletEvaluation",
    "CurationResult",
    "DatasetRefused",
    "DeltaContextItem",
    "Insight",
    "LedgerPlaybooks",
    "Playbook",
    "PlaybookMetadata",
    "PlaybookStore",
    "Prompt",
    "PromptBuilder",
    "ReflectionResult",
    "ReflectorAgent",
    "ReflectorPromptBuilder",
    "Trajectory",
    "llm_client",
]
