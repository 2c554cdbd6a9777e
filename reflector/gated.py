"""Reflection as a step of your own agent loop, which can be switched off without a trace (docs/embedding.md).

Invariant: these are the public names; the code is in `reflector.gating`. Importing them loads no database, and using
them calls no network unless the host's own adapter does.
"""

from reflector.gating.bundle import (
    ReflectionBundle,
    canonical_prompt,
    fixture_key,
    plan_flag,
    prompt_sha256,
    should_run,
)
from reflector.gating.config import Fixtures, GatedConfig, load_config
from reflector.gating.log import FILE_NAME, STAGE_ORDINAL, ReflectionLog, canonical_line, log_record
from reflector.gating.measure import measure, read_config
from reflector.gating.step import (
    Adapter,
    Completion,
    FixtureMissingError,
    FixturesAdapter,
    after_turn,
    reflect,
    think,
)
from reflector.gating.summary import ReflectionResult, Written, entry_id, summarize, write_entries
from reflector.lessons.outcomes import embed

__all__ = [
    "FILE_NAME",
    "STAGE_ORDINAL",
    "Adapter",
    "Completion",
    "FixtureMissingError",
    "Fixtures",
    "FixturesAdapter",
    "GatedConfig",
    "ReflectionBundle",
    "ReflectionLog",
    "ReflectionResult",
    "Written",
    "after_turn",
    "canonical_line",
    "canonical_prompt",
    "embed",
    "entry_id",
    "fixture_key",
    "load_config",
    "log_record",
    "measure",
    "plan_flag",
    "prompt_sha256",
    "read_config",
    "reflect",
    "should_run",
    "summarize",
    "think",
    "write_entries",
]
