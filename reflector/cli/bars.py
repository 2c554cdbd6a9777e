"""Bars and sparklines for a terminal; a pipe gets the figures alone.

Invariant: a bar is a share of the largest one, so no scale has to be read, and what is not nothing is never drawn as
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_WIDTH = 16


def spark(values: Sequence[float | None], most: float | None = None) -> str:
    """One character a value, its height its share of `most`, else of the largest; a space where there is none."""
    most = most or max((value for value in values if value is not None), default=0) or 1
    return "".join(
        " " if value is None else _LEVELS[min(len(_LEVELS) - 1, int(value / most * len(_LEVELS)))] for value in values
    )


def bar(value: float, most: float) -> str:
    """Return a bar of at most `_WIDTH` characters, in eighths of one."""
    if value <= 0 or most <= 0:
        return ""
    eighths = max(1, round(value / most * _WIDTH * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
