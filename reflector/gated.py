"""Reflection as a step of your own agent loop: the public names (docs/embedding.md)."""

from reflector.embed.gated import (
    Completion,
    FixtureMissingError,
    FixturesAdapter,
    Written,
    after_turn,
    canonical_prompt,
    entry_id,
    fixture_key,
    measure,
    prompt_sha256,
    reflect,
    summarize,
    think,
    write_entries,
)
from reflector.embed.gated.log import (
    FILE_NAME,
    STAGE_ORDINAL,
    RecordLog,
    ReflectionLog,
    canonical_line,
    log_record,
)
from reflector.embed.gated.settings import (
    Fixtures,
    GatedConfig,
    load_config,
    read_config,
)
from reflector.embed.gated.turn import (
    ReflectionBundle,
    ReflectionResult,
    plan_flag,
    should_run,
)
from reflector.embed.lessons.book import embed

__all__ = [
    "FILE_NAME",
    "STAGE_ORDINAL",
    "Completion",
    "FixtureMissingError",
    "Fixtures",
    "FixturesAdapter",
    "GatedConfig",
    "RecordLog",
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
