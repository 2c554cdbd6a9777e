"""The small pictures in a report's tables: bars of counts, courses, intervals.

Invariant: a picture is made of numbers alone, and has the colours of the page's classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from reflector.audit.blame import Step

#: The most steps of a course, and values of a lesson, in a picture.
_STEPS: Final = 48
_VALUES: Final = 40


def bar(most: int, *counts: int) -> Markup:
    """Return a bar of helped, harmed and, if given, other counts. A sum of `most` fills the bar."""
    parts = ""
    x = 0.0
    for kind, count in zip(("good", "bad", "plain"), counts, strict=False):
        width = round(100 * count / max(most, 1), 1)
        if width:
            parts += f'<rect class="{kind}" x="{x:g}" width="{width:g}" height="8" rx="1.5"/>'
        x = round(x + width + bool(width), 1)
    return _small("bar", "0 0 103 8", parts, ' preserveAspectRatio="none"')


def course(steps: Sequence[Step]) -> Markup:
    """Return the course of counters as two stepped lines: helped upwards, harmed downwards.

    A counter that never changed has no line.
    """
    kept = list(steps)
    if len(steps) > _STEPS:
        kept = [steps[len(steps) * place // _STEPS] for place in range(_STEPS)] + [steps[-1]]
    most = max((max(step.helpful, step.harmful) for step in kept), default=0)
    if not most:
        return Markup()
    lines = _line("good", [-step.helpful / most for step in kept])
    lines += _line("bad", [step.harmful / most for step in kept])
    return _small("course", "0 0 80 24", lines)


def _line(kind: str, heights: Sequence[float]) -> str:
    if not any(heights):
        return ""
    path = "M0 12"
    before = 0.0
    for place, height in enumerate(heights):
        if height != before:
            before = height
            path += f"H{place * 80 / len(heights):.0f}V{12 + 11 * height:.1f}".replace(".0", "")
    return f'<path class="{kind}" d="{path}H80"/>'


def worth(values: Sequence[float]) -> Markup:
    """Return the course of a lesson's worth since its beginning, from 0 (bottom) to 1 (top)."""
    points = [0.5, *values[-_VALUES:]]
    step = 80 / max(1, len(points) - 1)
    path = " ".join(
        f"{place * step:.0f},{22 - 20 * value:.1f}" for place, value in enumerate(points)
    )
    return _small("course", "0 0 80 24", f'<polyline class="good" points="{path}"/>')


def share(low: float, high: float, value: float) -> Markup:
    """Return the interval of a share as a line on a scale from 0 to 1.

    The share is a point, and one half has a mark.
    """
    shapes = '<path class="half" d="M2 6H78M40 1V11"/>'
    shapes += f'<path d="M{2 + 76 * low:.0f} 6H{2 + 76 * high:.0f}"/>'
    shapes += f'<circle cx="{2 + 76 * value:.0f}" cy="6" r="3"/>'
    return _small("share", "-2 0 84 12", shapes)


def _small(kind: str, box: str, shapes: str, more: str = "") -> Markup:
    return Markup(f'<svg class="{kind}" viewBox="{box}" aria-hidden="true"{more}>{shapes}</svg>')
