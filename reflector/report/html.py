"""The page as one HTML file.

Invariant: every value that the templates print passes `shown`: on one line, bounded, without
secrets and without what a reader cannot see; then it is escaped. The policy in the file allows the
one style and the one script that are in it, by their hash, so a mistake of ours would run nothing
either. The file names no address, and reads without its script. What is shared has no quote,
reason, path, project, author or session's id in it.
"""

from __future__ import annotations

import base64
import re
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

import jinja2
from markupsafe import Markup

from reflector.playbook.evidence import HARMS
from reflector.playbook.names import SECTIONS
from reflector.report import pictures
from reflector.report.page import MOST_BULLETS, MOST_LINKS, MOST_ROWS, Page
from reflector.text.secrets import quote

_TEMPLATES = Path(__file__).parent / "templates"
#: Characters of a text, and of all reasons and quotes together.
_MOST: Final = 600
_ROOM: Final = 1_600_000
_PATH: Final = re.compile(
    r"(?:(?<![\w/.])(?:~|\.{1,2})?/|\b[A-Za-z]:\\)[\w.@~+-][^\s\"'`<>"
    r"|(),;]*(?<![.:!?])"
)
_ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{9,27}\b|\b[0-9a-f]{32,64}\b")


def page_html(page: Page, begun: Popen[str], *, share: bool = False) -> str:
    """Return the whole file; `begun` is the process that draws. Raises OSError where it is gone."""
    project = (
        re.compile(rf"(?<!\w){re.escape(page.project)}(?!\w)") if len(page.project) > 2 else None
    )

    @lru_cache(maxsize=1 << 16)
    def cut(text: str, limit: int = _MOST) -> str:
        found = quote(text, limit)
        if share:
            found = _ID.sub("[id]", _PATH.sub("[path]", found))
            found = project.sub("[project]", found) if project else found
        return found

    def shown(value: Any) -> Any:
        return cut(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "day": _day, "percent": _percent, "cut": cut}
    style, script = (
        _TEMPLATES.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    rows = sum(len(one.newest) for one in page.shown)
    return environment.get_template("page.html").render(
        page=page,
        share=share,
        drawn=pictures.ask(begun, page, lambda text: cut(text, 40)),
        draw=pictures,
        most=max((one.row.helpful + one.row.harmful for one in page.bullets), default=0),
        room=max(80, min(300, _ROOM // (2 * rows + 1))),
        rows=MOST_ROWS,
        bullets=MOST_BULLETS,
        most_links=MOST_LINKS,
        harms=HARMS,
        titles=SECTIONS,
        kinds={"helpful": "good", "harmful": "bad"},
        style=Markup(style),
        script=Markup(script),
        policy=Markup(
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            "base-uri 'none'"
        ),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _day(stamp: str | None) -> str:
    """Return `21 Nov 2026` of a time, in this machine's zone; of a day the day."""
    try:
        found = datetime.fromisoformat(stamp or "")
        return f"{(found.astimezone() if found.tzinfo else found):%d %b %Y}".lstrip("0")
    except (ValueError, OverflowError):
        return stamp or "–"
