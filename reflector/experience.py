"""Learning from experience: the public names of part D, each in the room where its subject is."""

from reflector.lessons import outcomes
from reflector.lessons.outcomes import OutcomeSignal as OutcomeSignal
from reflector.lessons.outcomes import merge_outcome_signals as merge_outcome_signals
from reflector.quality.signals import PRESETS as PRESETS
from reflector.quality.signals import Decision as Decision
from reflector.quality.signals import GatePolicy as GatePolicy
from reflector.quality.signals import QualitySignals as QualitySignals
from reflector.quality.signals import Signs as Signs
from reflector.quality.signals import detect_assertive_uncertainty as detect_assertive_uncertainty
from reflector.quality.signals import detect_failure_patterns as detect_failure_patterns
from reflector.quality.signals import detect_missing_debug_structure as detect_missing_debug_structure
from reflector.quality.signals import quality_signals_for_response as quality_signals_for_response
from reflector.revision.turn import MIN_REFLECTION_RETRY_DELTA as MIN_REFLECTION_RETRY_DELTA
from reflector.revision.turn import AgentReflection as AgentReflection
from reflector.revision.turn import Answer as Answer
from reflector.revision.turn import ReflectionConfig as ReflectionConfig
from reflector.revision.turn import RevisedTurn as RevisedTurn
from reflector.revision.turn import build_reflection_prompt as build_reflection_prompt
from reflector.revision.turn import parse_reflection_response as parse_reflection_response
from reflector.revision.turn import past_reflections as past_reflections
from reflector.revision.turn import reflections_of as reflections_of
from reflector.revision.turn import revise_turn as revise_turn

reflection_promotion_confidence = outcomes.promotion_confidence
score_reflection_improvement = outcomes.score_improvement
