"""The pictures of a report: charts by Vega-Lite, drawn to SVG in a process of its own; small lines and bars by hand.

Invariant: a picture loads nothing, runs nothing and styles nothing but by the page's own colours. Of what the library
draws only shapes and words pass, so no text inside a chart can become markup. Each chart is drawn twice, for a wide
and for a narrow screen, because letters that are scaled down cannot be read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

if TYPE_CHECKING:
    from reflector.audit.blame import Step
    from reflector.report.page import Page

_WIDE, _NARROW = 660, 270
_DRAWS: Final = """
import json, sys, vl_convert
draw = lambda spec: vl_convert.vegalite_to_svg(spec, vl_version="5.20", allowed_base_urls=[])
draw({"data": {"values": []}, "mark": "bar"})
wanted = sys.stdin.read()
json.dump([draw(spec) for spec in json.loads(wanted or "[]")], sys.stdout)
"""
_SHAPES: Final = frozenset("svg g path line rect circle text".split())
_DRAWN: Final = frozenset(
    "d transform fill stroke stroke-width stroke-dasharray opacity fill-opacity x y x1 x2 y1 y2 width height rx r"
    " text-anchor font-size font-weight viewBox".split()
)
#: Models that have a colour of their own; the others share one.
_MOST_MODELS: Final = 5
_AXIS: Final = {
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "gridColor": "var(--line)",
    "domainColor": "var(--line)",
    "tickColor": "var(--line)",
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titleAlign": "left",
    "titleAnchor": "start",
}
_WHOLE: Final = "datum.value % 1 ? '' : format(abs(datum.value), '~s')"
_NUMBERS: Final = {"title": None, "tickCount": 4, "labelExpr": _WHOLE}
_CONFIG: Final = {
    "aria": False,
    "background": None,
    "view": {"stroke": None},
    "axis": _AXIS,
    "legend": {"labelColor": "var(--ink)", "labelFontSize": 12, "title": None, "orient": "top", "columnPadding": 30},
    "title": {"color": "var(--muted)", "fontSize": 12, "fontWeight": "normal", "anchor": "start", "frame": "group"},
    "concat": {"spacing": 14},
}


def begin() -> subprocess.Popen[bytes]:
    """Start the process that draws: its engine takes a second to be ready, while the ledger is asked."""
    return subprocess.Popen([sys.executable, "-I", "-c", _DRAWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def charts(page: Page, shown: Callable[[str], str]) -> dict[str, list[dict[str, Any]]]:
    """Return what is to be drawn by the section that it stands in, each wide and narrow; none of what is empty.

    `shown` makes a name fit to be seen.
    """
    found: dict[str, list[dict[str, Any]]] = {"weeks": [], "spent": [], "told": []}
    for width in (_WIDE, _NARROW):
        for name, spec in zip(
            found, (_weeks(page, width), _spent(page, width, shown), _told(page, width)), strict=True
        ):
            found[name] += [{"config": _CONFIG, **spec}] if spec else []
    return found


def drawn(begun: subprocess.Popen[bytes], wanted: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was to be drawn, as SVG. Raises OSError where the process that draws is gone."""
    answer, _ = begun.communicate(json.dumps(wanted).encode())
    if begun.returncode:
        raise OSError(f"the pictures could not be drawn: Vega-Lite ended with {begun.returncode}")
    return [_plain(ElementTree.fromstring(svg)) for svg in json.loads(answer)]


def _plain(node: ElementTree.Element) -> str:
    """Return an element with the shapes, the words and the places that a picture needs."""
    tag = node.tag.rpartition("}")[2]
    if tag not in _SHAPES or node.get("fill-opacity") == "0":
        return ""
    inner = "".join(map(_plain, node))
    if tag == "text":
        inner = _escaped(node.text or "")
    if not inner and tag in ("g", "text"):
        return ""
    own = {name: re.sub(r"(\.\d)\d+", r"\1", value) for name, value in node.attrib.items() if name in _DRAWN}
    if tag == "svg":
        own = {"viewBox": own["viewBox"], "width": own["width"], "height": own["height"], "aria-hidden": "true"}
    attributes = "".join(f' {name}="{_escaped(value)}"' for name, value in own.items())
    return f"<{tag}{attributes}>{inner}</{tag}>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _by_week(begins: Sequence[str], title: str | None = None) -> dict[str, Any]:
    """Return the axis of weeks: each is named while they are few, else those that begin a month or a quarter."""
    months = [week for before, week in zip(["", *begins], begins, strict=False) if before[:7] != week[:7]]
    step = 1 if len(months) < 15 else 3
    shown = begins if len(begins) < 10 else months[1::step]
    form = "%-d %b" if len(begins) < 10 else "%b %y"
    axis = {"values": list(shown), "labelExpr": f"utcFormat(toDate(datum.value), '{form}')", "labelAngle": 0}
    axis |= {"labelOverlap": True, "ticks": True, "title": title, "grid": False}
    return {"field": "week", "type": "ordinal", "axis": axis, "scale": {"paddingInner": 0.15}}


def _weeks(page: Page, width: int) -> dict[str, Any]:
    """Four small charts above one another: sessions, verdicts, corrections, tokens of judges."""
    begins = [week.begins for week in page.weeks]
    if not begins:
        return {}

    def panel(title: str, height: int, rows: Iterable[tuple[str, int, str]]) -> dict[str, Any]:
        x = _by_week(begins)
        x["axis"] = {**x["axis"], "labels": False, "ticks": False}
        y = {"field": "n", "type": "quantitative", "axis": {**_NUMBERS, "tickCount": 3}}
        return {
            "title": title,
            "width": min(width, 40 * max(4, len(begins))),
            "height": height,
            "data": {"values": [{"week": week, "n": n, "c": colour} for week, n, colour in rows]},
            "mark": {"type": "bar"},
            "encoding": {"x": x, "y": y, "color": {"field": "c", "type": "nominal", "scale": None}},
        }

    def of(field: str, colour: str, sign: int = 1) -> list[tuple[str, int, str]]:
        return [(week.begins, sign * week.sum(field), f"var(--{colour})") for week in page.weeks]

    sessions = [(week.begins, len(week.sessions), "var(--plain)") for week in page.weeks]
    verdicts = of("helpful", "good") + of("harmful", "bad", -1)
    panels = [panel("sessions", 56, sessions), panel("verdicts: helpful up, harmful down", 110, verdicts)]
    if page.known:
        panels.append(panel("corrections by a person", 40, of("corrections", "warn")))
    if page.stats.whole.tokens:
        panels.append(panel("tokens of judges", 56, of("tokens", "plain")))
    panels[-1]["encoding"]["x"] = _by_week(begins)
    return {"vconcat": panels, "resolve": {"scale": {"color": "independent"}}}


def _spent(page: Page, width: int, shown: Callable[[str], str]) -> dict[str, Any]:
    totals: Counter[str] = Counter()
    for (_, model), of in page.stats.spent.items():
        totals[model] += of.tokens
    models = [model for model, tokens in totals.most_common() if tokens]
    if not models:
        return {}
    named = {model: shown(model) for model in models[:_MOST_MODELS]}
    rows = [
        {"week": week, "n": of.tokens, "model": named.get(model, "others")}
        for (week, model), of in page.stats.spent.items()
        if of.tokens
    ]
    names = [*named.values(), *(["others"] if len(models) > len(named) else [])]
    scale = {"domain": names, "range": [f"var(--m{number})" for number in range(1, len(names) + 1)]}
    weeks = sorted({week for week, _ in page.stats.spent})
    return {
        "width": min(width, 40 * max(4, len(weeks))),
        "height": 130,
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {
            "x": {**_by_week(weeks), "scale": {"domain": weeks, "paddingInner": 0.15}},
            "y": {"field": "n", "type": "quantitative", "axis": _NUMBERS},
            "color": {"field": "model", "type": "nominal", "scale": scale, "legend": {"columns": width // 200 or 1}},
        },
    }


def _told(page: Page, width: int) -> dict[str, Any]:
    """Each bullet by the sessions that were told it and those that cited it."""
    rows = [
        {"told": one.row.told_sessions, "cited": one.cited, "c": f"var(--{'good' if one.cited else 'bad'})"}
        for one in page.told
    ]
    if not rows:
        return {}
    axes = {"x": ("told", "sessions that were told the bullet"), "y": ("cited", "sessions that cited it")}
    places: dict[str, Any] = {
        axis: {"field": field, "type": "quantitative", "scale": {"type": "sqrt"}, "axis": {**_NUMBERS, "title": title}}
        for axis, (field, title) in axes.items()
    }
    places["y"]["axis"] |= {"titleAngle": 0, "titleY": -12}
    return {
        "width": width,
        "height": 220,
        "data": {"values": rows},
        "mark": {"type": "circle", "size": 46, "opacity": 0.65},
        "encoding": {**places, "color": {"field": "c", "type": "nominal", "scale": None}},
    }


def bar(most: int, *counts: int) -> str:
    """Return a bar of helpful, harmful and perhaps undecided counts, on the scale of what has the most."""
    parts, x = "", 0.0
    for kind, count in zip(("good", "bad", "plain"), counts, strict=False):
        width = round(100 * count / max(most, 1), 1)
        parts += f'<rect class="{kind}" x="{x:g}" width="{width:g}" height="8" rx="1.5"/>' if width else ""
        x = round(x + width + bool(width), 1)
    return f'<svg class="bar" viewBox="0 0 103 8" aria-hidden="true" preserveAspectRatio="none">{parts}</svg>'


def course(steps: Sequence[Step]) -> str:
    """Return how counters moved as two lines of steps: helpful upwards, harmful downwards."""
    kept = steps if len(steps) <= 48 else [steps[len(steps) * place // 48] for place in range(48)] + [steps[-1]]
    most = max((max(one.helpful, one.harmful) for one in kept), default=0) or 1
    lines = []
    for kind, sign in (("good", -1), ("bad", 1)):
        path, before = "M0 12", 0
        for place, one in enumerate(kept):
            if (total := one.helpful if sign < 0 else one.harmful) != before:
                before = total
                path += f"H{place * 80 / len(kept):.0f}V{12 + sign * 11 * total / most:.1f}".replace(".0", "")
        lines.append(f'<path class="{kind}" d="{path}H80"/>')
    return f'<svg class="course" viewBox="0 0 80 24" aria-hidden="true">{"".join(lines)}</svg>' if steps else ""


def worth(values: Sequence[float]) -> str:
    """Return how a lesson's worth moved from its beginning, between 0 below and 1 above."""
    points = [0.5, *values[-40:]]
    step = 80 / max(1, len(points) - 1)
    path = " ".join(f"{place * step:.0f},{22 - 20 * value:.1f}" for place, value in enumerate(points))
    return f'<svg class="course" viewBox="0 0 80 24" aria-hidden="true"><polyline class="good" points="{path}"/></svg>'


def share(low: float, high: float, value: float | None) -> str:
    """Return the interval of a share as a line between 0 and 1, with the share as a point and a mark at one half."""
    line = "" if value is None else f'<path d="M{2 + 76 * low:.0f} 6H{2 + 76 * high:.0f}"/>'
    point = "" if value is None else f'<circle cx="{2 + 76 * value:.0f}" cy="6" r="3"/>'
    half = '<path class="half" d="M2 6H78M40 1V11"/>'
    return f'<svg class="share" viewBox="-2 0 84 12" aria-hidden="true">{half}{line}{point}</svg>'
