"""Learning from experience: the public names of part D, each in the room where its subject is."""

from reflector.quality.signals import (
    QualitySignals,
    detect_assertive_uncertainty,
    detect_failure_patterns,
    detect_missing_debug_structure,
    quality_signals_for_response,
)

__all__ = [
    "QualitySignals",
    "detect_assertive_uncertainty",
    "detect_failure_patterns",
    "detect_missing_debug_structure",
    "quality_signals_for_response",
]
