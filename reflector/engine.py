"""The reflection engine: the public names of part E, each in the room where its subject is."""

from reflector.quality.signals import ReflectionTrigger
from reflector.revision.engine import ReflectionEngine, ReflectionLesson, ReflectionResult

__all__ = ["ReflectionEngine", "ReflectionLesson", "ReflectionResult", "ReflectionTrigger"]
