"""Learning from experience: the public names (docs/learning.md)."""

from reflector.embed.experience import MIN_REFLECTION_RETRY_DELTA as MIN_REFLECTION_RETRY_DELTA
from reflector.embed.experience import PRESETS as PRESETS
from reflector.embed.experience import Agent as Agent
from reflector.embed.experience import AgentReflection as AgentReflection
from reflector.embed.experience import Answer as Answer
from reflector.embed.experience import Decision as Decision
from reflector.embed.experience import GatePolicy as GatePolicy
from reflector.embed.experience import OutcomeSignal as OutcomeSignal
from reflector.embed.experience import QualitySignals as QualitySignals
from reflector.embed.experience import ReflectionConfig as ReflectionConfig
from reflector.embed.experience import RevisedTurn as RevisedTurn
from reflector.embed.experience import Revision as Revision
from reflector.embed.experience import Signs as Signs
from reflector.embed.experience import ToolResult as ToolResult
from reflector.embed.experience import build_reflection_prompt as build_reflection_prompt
from reflector.embed.experience import detect_assertive_uncertainty as detect_assertive_uncertainty
from reflector.embed.experience import detect_failure_patterns as detect_failure_patterns
from reflector.embed.experience import (
    detect_missing_debug_structure as detect_missing_debug_structure,
)
from reflector.embed.experience import merge_outcome_signals as merge_outcome_signals
from reflector.embed.experience import parse_reflection_response as parse_reflection_response
from reflector.embed.experience import past_reflections as past_reflections
from reflector.embed.experience import quality_signals_for_response as quality_signals_for_response
from reflector.embed.experience import (
    reflection_promotion_confidence as reflection_promotion_confidence,
)
from reflector.embed.experience import reflections_of as reflections_of
from reflector.embed.experience import revise_turn as revise_turn
from reflector.embed.experience import score_reflection_improvement as score_reflection_improvement
