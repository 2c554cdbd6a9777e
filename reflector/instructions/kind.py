"""The kinds of pieces of an instruction file."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The use of a piece: to follow it, to know it, or to run it."""

    RULE = "rule"
    FACT = "fact"
    COMMAND = "command"
