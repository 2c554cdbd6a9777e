"""The pictures of a report: charts by Vega-Lite, drawn to SVG in a process of its own; small lines
and bars by hand.

Invariant: a picture loads nothing, runs nothing and styles nothing but by the page's own colours.
Of what the library draws only shapes and words pass, so no text inside a chart can become markup.
Each chart is drawn twice, for a wide and for a narrow screen, because letters that are scaled down
cannot be read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from markupsafe import Markup, escape

from reflector.text.bounds import clean

if TYPE_CHECKING:
    from reflector.audit.blame import Step
    from reflector.report.page import Page

_WIDE, _NARROW = 660, 270
_DRAWS: Final = """
import json, sys, vl_convert
draw = lambda spec: vl_convert.vegalite_to_svg(spec, vl_version="5.20", allowed_base_urls=[])
draw({"data": {"values": []}, "mark": "bar"})
json.dump([draw(spec) for spec in json.loads(sys.stdin.read() or "[]")], sys.stdout)
"""
_SHAPES: Final = frozenset("svg g path line rect circle text".split())
_DRAWN: Final = frozenset(
    "d transform fill stroke stroke-width stroke-dasharray opacity fill-opacity x y x1 x2 y1 y2 "
    "width height rx r"
    " text-anchor font-size font-weight viewBox".split()
)
#: Models that have a colour of their own; the others share one.
_MOST_MODELS: Final = 5
#: Bullets in the picture of those that were told.
_MOST_POINTS: Final = 2_000
_INK, _LINE, _TITLE = (
    "var(--muted)",
    "var(--line)",
    {"fontSize": 12, "fontWeight": "normal", "anchor": "start"},
)
_AXIS: Final = dict.fromkeys(("labelColor", "titleColor"), _INK) | dict.fromkeys(
    ("labelFontSize", "titleFontSize"), 12
)
_AXIS.update(
    dict.fromkeys(("gridColor", "domainColor", "tickColor"), _LINE), titleFontWeight="normal"
)
_CONFIG: Final = {
    "aria": False,
    "background": None,
    "view": {"stroke": None},
    "axis": {**_AXIS, "titleAlign": "left", "titleAnchor": "start"},
    "legend": {
        "labelColor": "var(--ink)",
        "labelFontSize": 12,
        "title": None,
        "orient": "top",
        "columnPadding": 30,
    },
    "title": {**_TITLE, "color": _INK, "frame": "group"},
    "concat": {"spacing": 14},
}
_NUMBERS: Final = {
    "title": None,
    "labelExpr": ("datum.value % 1 ? '' : format(abs(datum.value), '~s')"),
}
#: Of a colour that a row names itself.
_OWN: Final = {"field": "c", "type": "nominal", "scale": None}


@contextmanager
def begin() -> Iterator[subprocess.Popen[str]]:
    """Run the process that draws: its engine takes a second to be ready, while the ledger is
    asked.
    """
    command = [sys.executable, "-I", "-X", "utf8", "-c", _DRAWS]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes, encoding="utf-8", errors="replace") as begun:
        try:
            yield begun
        finally:
            begun.kill()  # before it asks for what was not said


def ask(
    begun: subprocess.Popen[str], page: Page, shown: Callable[[str], str]
) -> Callable[[str], list[Markup]]:
    """Ask for the charts of a page. Return what waits for those of a section: wide and narrow, none
    of what is empty.

    `shown` makes a name fit to be seen. Raises OSError where the process that draws is gone.
    """
    wanted: list[tuple[str, dict[str, Any]]] = []
    for width in (_WIDE, _NARROW):
        wanted += [("weeks", _weeks(page, width))] if page.weeks else []
        wanted += [("spent", _spent(page, width, shown))] if page.stats.whole.tokens else []
        wanted += [("told", _told(page, width))] if page.told else []
    assert begun.stdin is not None  # a pipe, as stdout
    # A process that ended says why in `drawn`; the error of its pipe would look like that of our
    # own reader.
    with suppress(BrokenPipeError), begun.stdin as asked:
        json.dump([{"config": _CONFIG, **spec} for _, spec in wanted], asked)

    @cache
    def drawn() -> list[Markup]:
        assert begun.stdout is not None
        assert begun.stderr is not None
        answer = begun.stdout.read()
        if begun.wait():
            raise OSError(
                f"the pictures could not be drawn: {_reason(begun.stderr.read(), begun.returncode)}"
            )
        return [Markup(_plain(ElementTree.fromstring(svg))) for svg in json.loads(answer)]

    return lambda section: [
        svg for (name, _), svg in zip(wanted, drawn(), strict=True) if name == section
    ]


def _reason(printed: str, code: int) -> str:
    """Return why the process that draws ended, by what it printed."""
    if "Too many open files" in printed:
        return "too many open files; raise the limit (`ulimit -n`), then run the same command again"
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return f"Vega-Lite ended with {code}" + (f" ({clean(lines[-1], 200)})" if lines else "")


def _plain(node: ElementTree.Element) -> str:
    """Return an element with the shapes, the words and the places that a picture needs."""
    tag = node.tag.rpartition("}")[2]
    if tag not in _SHAPES or node.get("fill-opacity") == "0":
        return ""
    inner = escape(node.text or "") if tag == "text" else "".join(map(_plain, node))
    if not inner and tag in ("g", "text"):
        return ""
    own = {
        name: re.sub(r"(\.\d)\d+", r"\1", value)
        for name, value in node.attrib.items()
        if name in _DRAWN
    }
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in own.items())
    hidden = ' aria-hidden="true"' if tag == "svg" else ""
    return f"<{tag}{attributes}{hidden}>{inner}</{tag}>"


def _bars(
    rows: Iterable[tuple[str, int, str]],
    weeks: Sequence[str],
    width: int,
    height: int,
    colour: dict[str, Any],
) -> dict[str, Any]:
    """Return bars by week. Each week is named while they are few, else those that begin a month
    or a quarter.
    """
    months = [
        week for before, week in zip(["", *weeks], weeks, strict=False) if before[:7] != week[:7]
    ]
    are_few = len(weeks) < 10
    values, form = (
        (weeks, "%-d %b") if are_few else (months[1 :: 1 if len(months) < 15 else 3], "%b %y")
    )
    axis = {
        "values": list(values),
        "labelExpr": (f"utcFormat(toDate(datum.value), '{form}')"),
        "labelAngle": 0,
    }
    axis |= {"labelOverlap": True, "title": None, "grid": False}
    scale = {"domain": list(weeks), "paddingInner": 0.15}
    return {
        "width": min(width, 40 * max(4, len(weeks))),
        "height": height,
        "data": {"values": [{"week": week, "n": number, "c": of} for week, number, of in rows]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "week", "type": "ordinal", "axis": axis, "scale": scale},
            "y": {"field": "n", "type": "quantitative", "axis": {**_NUMBERS, "tickCount": 3}},
            "color": colour,
        },
    }


def _weeks(page: Page, width: int) -> dict[str, Any]:
    """Up to four small charts above one another: sessions, verdicts, corrections, tokens of
    judges.
    """

    def panel(title: str, height: int, *of: tuple[str, str, int]) -> dict[str, Any]:
        rows = [
            (
                week.begins,
                sign * (week.sum(field) if field else len(week.sessions)),
                f"var(--{colour})",
            )
            for field, colour, sign in of
            for week in page.weeks
        ]
        return {
            "title": title,
            **_bars(rows, [week.begins for week in page.weeks], width, height, _OWN),
        }

    panels = [
        panel("sessions", 56, ("", "plain", 1)),
        panel(
            "verdicts: helpful up, harmful down",
            110,
            ("helpful", "good", 1),
            ("harmful", "bad", -1),
        ),
    ]
    if page.known:
        panels.append(panel("corrections by a person", 40, ("corrections", "warn", 1)))
    if page.stats.whole.tokens:
        panels.append(panel("tokens of judges", 56, ("tokens", "plain", 1)))
    for above in panels[:-1]:
        above["encoding"]["x"]["axis"] |= {"labels": False, "ticks": False}
    return {"vconcat": panels}


def _spent(page: Page, width: int, shown: Callable[[str], str]) -> dict[str, Any]:
    """Tokens by week and model."""
    totals: Counter[str] = Counter()
    for (_, model), of in page.stats.spent.items():
        totals[model] += of.tokens
    named = {model: shown(model) for model, tokens in totals.most_common(_MOST_MODELS) if tokens}
    rows = [
        (week, of.tokens, named.get(model, "others"))
        for (week, model), of in page.stats.spent.items()
        if of.tokens
    ]
    names = [*named.values(), *({of for _, _, of in rows} - {*named.values()})]
    scale = {"domain": names, "range": [f"var(--m{number})" for number, _ in enumerate(names, 1)]}
    colour = {
        "field": "c",
        "type": "nominal",
        "scale": scale,
        "legend": {"columns": width // 200 or 1},
    }
    return _bars(rows, sorted({week for week, _ in page.stats.spent}), width, 130, colour)


def _told(page: Page, width: int) -> dict[str, Any]:
    """Each bullet by the sessions that were told it and those that cited it."""
    wasted = {one.row.name for one in page.wasted}
    rows = [
        (one.row.told_sessions, one.cited, f"var(--{'bad' if one.row.name in wasted else 'good'})")
        for one in page.told[:_MOST_POINTS]
    ]
    place = {"type": "quantitative", "scale": {"type": "sqrt"}}
    axis: dict[str, Any] = {**_NUMBERS, "tickCount": 4}
    x = {**place, "field": "told", "axis": {**axis, "title": "sessions that were told the bullet"}}
    y = {
        **place,
        "field": "cited",
        "axis": {**axis, "title": "sessions that cited it", "titleAngle": 0, "titleY": -12},
    }
    return {
        "width": width,
        "height": 220,
        "data": {"values": [dict(zip(("told", "cited", "c"), row, strict=True)) for row in rows]},
        "mark": {"type": "circle", "size": 46, "opacity": 0.65},
        "encoding": {"x": x, "y": y, "color": _OWN},
    }


def bar(most: int, *counts: int) -> Markup:
    """Return a bar of helpful, harmful and perhaps undecided counts, on the scale of what has
    the most.
    """
    parts, x = "", 0.0
    for kind, count in zip(("good", "bad", "plain"), counts, strict=False):
        width = round(100 * count / max(most, 1), 1)
        parts += (
            (f'<rect class="{kind}" x="{x:g}" width="{width:g}" height="8" rx="1.5"/>')
            if width
            else ""
        )
        x = round(x + width + bool(width), 1)
    return _small("bar", "0 0 103 8", parts, ' preserveAspectRatio="none"')


def course(steps: Sequence[Step]) -> Markup:
    """Return how counters moved as two lines of steps: helpful upwards, harmful downwards."""
    kept = (
        steps
        if len(steps) <= 48
        else [steps[len(steps) * place // 48] for place in range(48)] + [steps[-1]]
    )
    most = max((max(one.helpful, one.harmful) for one in kept), default=0) or 1
    lines = ""
    for kind, sign in (("good", -1), ("bad", 1)):
        path, before = "M0 12", 0
        for place, one in enumerate(kept):
            if (total := one.helpful if sign < 0 else one.harmful) != before:
                before = total
                path += (
                    f"H{place * 80 / len(kept):.0f}V{12 + sign * 11 * total / most:.1f}".replace(
                        ".0", ""
                    )
                )
        lines += f'<path class="{kind}" d="{path}H80"/>'
    return _small("course", "0 0 80 24", lines) if steps else Markup()


def worth(values: Sequence[float]) -> Markup:
    """Return how a lesson's worth moved from its beginning, between 0 below and 1 above."""
    points = [0.5, *values[-40:]]
    step = 80 / max(1, len(points) - 1)
    path = " ".join(
        (f"{place * step:.0f},{22 - 20 * value:.1f}") for place, value in enumerate(points)
    )
    return _small("course", "0 0 80 24", f'<polyline class="good" points="{path}"/>')


def share(low: float, high: float, value: float | None) -> Markup:
    """Return the interval of a share as a line between 0 and 1, with the share as a point and a
    mark at one half.
    """
    shown = '<path class="half" d="M2 6H78M40 1V11"/>'
    if value is not None:
        shown += f'<path d="M{2 + 76 * low:.0f} 6H{2 + 76 * high:.0f}"/>'
        shown += f'<circle cx="{2 + 76 * value:.0f}" cy="6" r="3"/>'
    return _small("share", "-2 0 84 12", shown)


def _small(kind: str, box: str, shapes: str, more: str = "") -> Markup:
    # of numbers alone
    return Markup(f'<svg class="{kind}" viewBox="{box}" aria-hidden="true"{more}>{shapes}</svg>')
