"""The engine of a step's verdicts and lessons: the public names (docs/learning.md)."""

from reflector.embed.engine import ReflectionEngine as ReflectionEngine
from reflector.embed.engine import ReflectionLesson as ReflectionLesson
from reflector.embed.engine import ReflectionResult as ReflectionResult
from reflector.embed.engine import ReflectionTrigger as ReflectionTrigger
