"""Learning from experience: the public names of part D, each in the room where its subject is."""

from reflector.lessons.outcomes import OutcomeSignal, merge_outcome_signals
from reflector.lessons.outcomes import promotion_confidence as reflection_promotion_confidence
from reflector.lessons.outcomes import score_improvement as score_reflection_improvement
from reflector.quality.policy import PRESETS, Decision, GatePolicy, Signs
from reflector.quality.signals import (
    QualitySignals,
    detect_assertive_uncertainty,
    detect_failure_patterns,
    detect_missing_debug_structure,
    quality_signals_for_response,
)
from reflector.revision.prompting import build_reflection_prompt
from reflector.revision.reflections import (
    AgentReflection,
    ReflectionConfig,
    parse_reflection_response,
    past_reflections,
    reflections_of,
)
from reflector.revision.turn import MIN_REFLECTION_RETRY_DELTA, Answer, RevisedTurn, revise_turn

__all__ = [
    "MIN_REFLECTION_RETRY_DELTA",
    "PRESETS",
    "AgentReflection",
    "Answer",
    "Decision",
    "GatePolicy",
    "OutcomeSignal",
    "QualitySignals",
    "ReflectionConfig",
    "RevisedTurn",
    "Signs",
    "build_reflection_prompt",
    "detect_assertive_uncertainty",
    "detect_failure_patterns",
    "detect_missing_debug_structure",
    "merge_outcome_signals",
    "parse_reflection_response",
    "past_reflections",
    "quality_signals_for_response",
    "reflection_promotion_confidence",
    "reflections_of",
    "revise_turn",
    "score_reflection_improvement",
]
