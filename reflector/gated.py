"""Reflection as a step of your own agent loop, which can be switched off without a trace (docs/embedding.md).

Invariant: these are the public names; the code is in `reflector.gating`. Importing them loads no database, and using
them calls no network unless the host's own adapter does.
"""

from reflector.gating.config import Fixtures as Fixtures
from reflector.gating.config import GatedConfig as GatedConfig
from reflector.gating.config import load_config as load_config
from reflector.gating.step import FILE_NAME as FILE_NAME
from reflector.gating.step import STAGE_ORDINAL as STAGE_ORDINAL
from reflector.gating.step import Completion as Completion
from reflector.gating.step import FixtureMissingError as FixtureMissingError
from reflector.gating.step import FixturesAdapter as FixturesAdapter
from reflector.gating.step import ReflectionBundle as ReflectionBundle
from reflector.gating.step import ReflectionLog as ReflectionLog
from reflector.gating.step import ReflectionResult as ReflectionResult
from reflector.gating.step import Written as Written
from reflector.gating.step import after_turn as after_turn
from reflector.gating.step import canonical_line as canonical_line
from reflector.gating.step import canonical_prompt as canonical_prompt
from reflector.gating.step import entry_id as entry_id
from reflector.gating.step import fixture_key as fixture_key
from reflector.gating.step import log_record as log_record
from reflector.gating.step import measure as measure
from reflector.gating.step import plan_flag as plan_flag
from reflector.gating.step import prompt_sha256 as prompt_sha256
from reflector.gating.step import read_config as read_config
from reflector.gating.step import reflect as reflect
from reflector.gating.step import should_run as should_run
from reflector.gating.step import summarize as summarize
from reflector.gating.step import think as think
from reflector.gating.step import write_entries as write_entries
from reflector.lessons.outcomes import embed as embed
