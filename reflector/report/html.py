"""The page as one HTML file.

Invariant: every value of the templates passes through `shown`, which puts it on one line, bounds
it, and removes secrets and invisible characters. Then it is escaped. The policy in the file allows
only its own style and script, by their hash, so even a mistake of ours would run nothing. The file
contains no address, and can be read without its script. A shared page has no quote, reason, path,
project, author or session id.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

from reflector.events.event import HUMAN
from reflector.playbook.bullet import policy_words
from reflector.playbook.evidence import HARMS
from reflector.playbook.names import SECTIONS
from reflector.report import charts, pictures
from reflector.report.page import MOST_LINKS, MOST_ROWS, MOST_RULES, Page
from reflector.text.phrases import counted, short_number
from reflector.text.secrets import quote

_TEMPLATES = Path(__file__).parent / "templates"
#: The most characters of a text, and of all reasons and quotes together.
_MOST: Final = 600
_ROOM: Final = 1_600_000
#: The most characters of a judge's name in a chart, and of a project's name that stays.
_NAME: Final = 40
_SHORTEST_NAME: Final = 2
_CODE: Final = re.compile(r"`([^`]+)`")
_PATH: Final = re.compile(
    r"(?:(?<![\w/.])(?:~|\.{1,2})?/|\b[A-Za-z]:\\)[\w.@~+-][^\s\"'`<>"
    r"|(),;]*(?<![.:!?])"
)
_ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{9,27}\b|\b[0-9a-f]{32,64}\b")


def page_html(page: Page, *, share: bool = False) -> str:
    """Return the whole page as HTML; with `share`, without ids, paths and the project's name."""
    cut = _cutter(page, share=share)

    def shown(value: Any) -> Any:
        return cut(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    def rich(text: str, limit: int = _MOST) -> Markup:
        """Return a text as HTML, with the parts between backticks as code."""
        return Markup(_CODE.sub(r"<code>\1</code>", str(escape(cut(text, limit)))))

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "day": _day,
        "percent": _percent,
        "judge": _judge,
        "cut": cut,
        "counted": counted,
        "policy": policy_words,
        "rich": rich,
    }
    style = _TEMPLATES.joinpath("page.css").read_text("utf-8")
    script = _TEMPLATES.joinpath("page.js").read_text("utf-8")
    quotes = sum(len(rule.newest) for rule in page.shown)
    votes = (rule.votes.total for rule in page.rules)
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    return environment.get_template("page.html").render(
        page=page,
        share=share,
        charts=charts.draw(page, lambda text: cut(text, _NAME)),
        draw=pictures,
        most=max(votes, default=0),
        room=max(80, min(300, _ROOM // (2 * quotes + 1))),
        most_rows=MOST_ROWS,
        most_rules=MOST_RULES,
        most_links=MOST_LINKS,
        harms=HARMS,
        human=HUMAN,
        titles=SECTIONS,
        kinds={"helpful": "good", "harmful": "bad"},
        style=Markup(style),
        script=Markup(script),
        policy=Markup(f"{policy}; base-uri 'none'"),
    )


def _cutter(page: Page, *, share: bool) -> Callable[..., str]:
    """Return the function that shortens a text and hides its secrets.

    With `share`, the function also replaces ids, paths and the name of the project.
    """
    project = None
    if share and len(page.project) > _SHORTEST_NAME:
        project = re.compile(rf"(?<!\w){re.escape(page.project)}(?!\w)")

    @lru_cache(maxsize=1 << 16)
    def cut(text: str, limit: int = _MOST) -> str:
        quoted = quote(text, limit)
        if share:
            quoted = _ID.sub("[id]", _PATH.sub("[path]", quoted))
        return project.sub("[project]", quoted) if project is not None else quoted

    return cut


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _judge(name: str) -> str:
    return "by hand" if name == HUMAN else name


def _number(value: float | None) -> str:
    return "–" if value is None else short_number(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _day(stamp: str | None) -> str:
    """Return a time or a day as `21 Nov 2026`, in this machine's time zone."""
    try:
        time = datetime.fromisoformat(stamp or "")
        local = time.astimezone() if time.tzinfo else time
    except (ValueError, OverflowError):
        return stamp or "–"
    return f"{local:%d %b %Y}".lstrip("0")
