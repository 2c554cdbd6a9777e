"""The engine of a step's verdicts and lessons: the public names (docs/learning.md)."""

from reflector.embed.engine import (
    ReflectionEngine,
    ReflectionLesson,
    ReflectionResult,
)
from reflector.quality.signals import ReflectionTrigger

__all__ = [
    "ReflectionEngine",
    "ReflectionLesson",
    "ReflectionResult",
    "ReflectionTrigger",
]
