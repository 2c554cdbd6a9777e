"""The charts of a report: bars by week and a scatter plot, as SVG of a few shapes.

Invariant: a chart contains only shapes, words and classes of the page's style, and no style,
script, link or address. Each chart is drawn for a wide and for a narrow screen, because scaled
letters cannot be read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Final, NamedTuple

from markupsafe import Markup, escape

from reflector.audit.stats import without_gaps

if TYPE_CHECKING:
    from reflector.ledger.answers import Group
    from reflector.report.page import Page

_WIDTHS: Final = (700, 330)
#: Pixels to the left of a chart for its numbers, to its right, and above it for its title.
_LEFT: Final = 44
_RIGHT: Final = 14
_TITLE: Final = 24
_WIDEST_BAR: Final = 40
#: The least length of grid lines, in pixels.
_SHORTEST: Final = 160
#: The distance of the labels of the x axis, in pixels.
_LABEL: Final = 50
#: The most weeks with a label each. Of more weeks, each month or quarter has a label.
_NAMED_WEEKS: Final = 10
_NAMED_MONTHS: Final = 15
#: The number of models with their own colour. The other models share one colour.
_MODELS: Final = 5
_RADIUS: Final = 3.5


class Series(NamedTuple):
    """The bars of one colour, with a value for each week. Bars of negative values point down."""

    kind: str
    values: Sequence[int]


def draw(page: Page, shown: Callable[[str], str]) -> dict[str, list[Markup]]:
    """Return the charts of a page by section, wide and narrow. A section without figures has none.

    shown  shortens a name and hides its secrets
    """
    charts: dict[str, list[Markup]] = {"weeks": [], "cost": [], "shown": []}
    for width in _WIDTHS:
        if page.weeks:
            charts["weeks"].append(_weeks(page, width))
        if page.stats.whole.tokens:
            charts["cost"].append(_tokens_by_week(page, width, shown))
        if page.context.shown:
            charts["shown"].append(_shown(page, width))
    return charts


def _weeks(page: Page, width: int) -> Markup:
    """Return the charts of sessions, verdicts and corrections by week, one above the other."""
    weeks = page.weeks

    def series(kind: str, field: str, sign: int = 1) -> Series:
        return Series(kind, [sign * week.sum(field) for week in weeks])

    verdicts = [series("good", "helpful"), series("bad", "harmful", -1)]
    sessions = [Series("plain", [len(week.sessions) for week in weeks])]
    panels = [
        ("sessions", 56, sessions),
        ("verdicts: helpful above the line, harmful below it", 110, verdicts),
    ]
    if page.known:
        panels.append(("your corrections", 44, [series("warn", "corrections")]))
    shapes = ""
    top = 0
    begins = [week.begins for week in weeks]
    for title, height, bars in panels:
        shapes += _text(title, 0, top + 12, "title") + _bars(bars, top + _TITLE, width, height)
        top += height + _TITLE + 12
    return _chart(shapes + _week_labels(begins, width, top + 6), width, top + 18)


def _tokens_by_week(page: Page, width: int, shown: Callable[[str], str]) -> Markup:
    """Return the chart of tokens by week and model, with the names of the models above it."""
    spent = page.stats.spent
    begins = [*without_gaps({week for week, _ in spent})]
    totals: Counter[str] = Counter()
    for (_, model), group in spent.items():
        totals[model] += group.tokens
    named = [model for model, tokens in totals.most_common(_MODELS) if tokens]
    others = [model for model, tokens in totals.items() if tokens and model not in named]
    rows = [(model, [model]) for model in named] + ([("others", others)] if others else [])
    bars = [
        Series(f"m{number}", [_tokens(spent, week, models) for week in begins])
        for number, (_, models) in enumerate(rows, 1)
    ]
    in_a_row = max(1, width // 200)
    shapes = ""
    for place, (name, _) in enumerate(rows):
        x = place % in_a_row * 200
        y = place // in_a_row * 20
        shapes += f'<rect class="m{place + 1}" x="{x}" y="{y}" width="11" height="11" rx="2"/>'
        shapes += _text(shown(name), x + 17, y + 10)
    top = (math.ceil(len(rows) / in_a_row)) * 20 + 12
    height = 130
    shapes += _bars(bars, top, width, height)
    bottom = top + height + 12
    return _chart(shapes + _week_labels(begins, width, bottom + 6), width, bottom + 18)


def _tokens(spent: Mapping[tuple[str, str], Group], week: str, models: Sequence[str]) -> int:
    return sum(spent[week, model].tokens for model in models if (week, model) in spent)


def _shown(page: Page, width: int) -> Markup:
    """Return a point for each rule: the sessions that were shown it and those that cited it.

    Rules at the same place share one larger point.
    """
    wasted = {rule.row.name for rule in page.context.wasted}
    points = Counter(
        (rule.row.told_sessions, rule.row.cited, "bad" if rule.row.name in wasted else "good")
        for rule in page.context.shown
    )
    most_shown = max(shown for shown, _, _ in points)
    most_cited = max(1, *(cited for _, cited, _ in points))
    height = 220
    bottom = _TITLE + height

    def x(value: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * math.sqrt(value / most_shown)

    def y(value: float) -> float:
        return bottom - height * math.sqrt(value / most_cited)

    shapes = _text("sessions that cited the rule", 0, 12, "title")
    for tick in _ticks(most_cited):
        shapes += _grid(y(tick), width - _RIGHT) + _number(tick, y(tick))
    for tick in _ticks(most_shown):
        shapes += _text(_short(tick), x(tick), bottom + 18, anchor="middle")
    shapes += _text("sessions that got the rule", _LEFT, bottom + 38, "title")
    # Draw the red points last, so that no other point covers them.
    for (shown, cited, kind), count in sorted(
        points.items(), key=lambda point: point[0][2] == "bad"
    ):
        radius = min(3 * _RADIUS, _RADIUS * math.sqrt(count))
        shapes += (
            f'<circle class="{kind}" cx="{x(shown):.0f}" cy="{y(cited):.0f}" r="{radius:.1f}"/>'
        )
    return _chart(shapes, width, bottom + 44)


def _bars(series: Sequence[Series], top: int, width: int, height: int) -> str:
    """Return stacked bars by week between grid lines. Negative values hang from the zero line."""
    columns = list(zip(*(bars.values for bars in series), strict=True))
    above = max(_sum(column, 1) for column in columns)
    below = max(_sum(column, -1) for column in columns)
    scale = height / max(1, above + below)
    zero = top + above * scale
    step = _step(len(columns), width)
    right = max(_LEFT + _SHORTEST, _LEFT + math.ceil(step * len(columns)))
    shapes = ""
    ticks = _ticks(max(above, below))
    for tick in sorted({*ticks, *(-tick for tick in ticks)}):
        if -below <= tick <= above:
            y = zero - tick * scale
            shapes += _grid(y, right) + _number(tick, y)
    kinds = [bars.kind for bars in series]
    for place, column in enumerate(columns):
        shapes += _stack(kinds, column, _LEFT + place * step, zero, scale, step * 0.85)
    return shapes


def _sum(column: Sequence[int], sign: int) -> int:
    """Return the sum of the values of one sign, as a positive number."""
    return sum(max(0, sign * value) for value in column)


def _stack(
    kinds: Sequence[str], column: Sequence[int], x: float, zero: float, scale: float, width: float
) -> str:
    """Return the bars of a week: positive values upwards from zero, negative values downwards."""
    shapes = ""
    top = bottom = zero
    for kind, value in zip(kinds, column, strict=True):
        tall = abs(value) * scale
        if value > 0:
            top -= tall
        y = top if value > 0 else bottom
        if value < 0:
            bottom += tall
        if value:
            shapes += (
                f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" '
                f'width="{width:.1f}" height="{max(tall, 0.7):.1f}"/>'
            )
    return shapes


def _step(weeks: int, width: int) -> float:
    return min(_WIDEST_BAR, (width - _LEFT - _RIGHT) / max(1, weeks))


def _week_labels(begins: Sequence[str], width: int, y: int) -> str:
    """Return the labels below the bars: each week if there are few, else months or quarters."""
    step = _step(len(begins), width)
    named = list(range(len(begins)))
    form = "%-d %b"
    if len(begins) >= _NAMED_WEEKS:
        months = [n for n in named[1:] if begins[n][:7] != begins[n - 1][:7]]
        named = months if len(months) < _NAMED_MONTHS else months[::3]
        form = "%b %y"
    shapes = ""
    free = 0.0
    for number in named:
        x = _LEFT + (number + 0.42) * step
        if x >= free and x < width - _LABEL / 2 + _RIGHT:
            shapes += _text(f"{date.fromisoformat(begins[number]):{form}}", x, y, anchor="middle")
            free = x + _LABEL
    return shapes


def _ticks(most: float) -> list[int]:
    """Return at most four round numbers from 0 to the largest value."""
    if most < 1:
        return [0]
    power = 10 ** int(math.log10(most))
    steps = [max(1, round(power * part)) for part in (0.1, 0.2, 0.5, 1, 2, 5)]
    step = next(step for step in steps if most / step < 4)
    return list(range(0, int(most) + 1, step))


def _short(number: int) -> str:
    """Return a number in its short form, such as 950, 12k or 1.5M."""
    value = float(abs(number))
    units = ["", "k", "M", "G"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g}{units[0]}"


def _number(value: int, y: float) -> str:
    return _text(_short(value), _LEFT - 8, y + 4, anchor="end")


def _grid(y: float, right: int) -> str:
    return f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>'


def _text(words: str, x: float, y: float, kind: str = "", anchor: str = "start") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(words)}</text>'


def _chart(shapes: str, width: int, height: int) -> Markup:
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return Markup(f'<svg class="chart" {box} aria-hidden="true">{shapes}</svg>')
