"""The terminal session at the beginning of the README: docs/terminal.svg, as the program prints it on a terminal.

`python -m tests.recording` records it anew, in the project of the demo.
"""

from __future__ import annotations

import html
import io
import re
import shlex
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.processes import REFLECTOR
from tests.road.agent import Agent
from tests.terminal import sent

SVG = Path(__file__).parents[1] / "docs" / "terminal.svg"
COLUMNS = 92
TYPED = (
    "reflector list",
    "reflector blame pat-002",
    "reflector undo b83e4d11 --why 'the user meant another file'",
)
#: Without a font from somewhere else: the reader's own is taken.
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*|<!--.*?-->\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"
)


def played(folder: Path) -> str:
    """What the terminal shows, with its colours; times and ids are the same each time."""
    agent = Agent(folder / "shop", folder / "home")
    agent.home.mkdir(parents=True)
    agent.project.parent.mkdir(parents=True, exist_ok=True)
    demo = Agent(folder, agent.home)
    demo.call("demo", "--keep", agent.project)
    shown = []
    for typed in TYPED:
        told = sent(agent, COLUMNS, [*REFLECTOR, *shlex.split(typed)[1:]])
        shown.append(f"\x1b[32m$\x1b[0m \x1b[1m{typed}\x1b[0m\n{told}")
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-21 09:14", "\n".join(shown))


def drawn(shown: str) -> str:
    """An SVG of it: dark, so that it looks the same on a light and on a dark page."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), legacy_windows=False)
    console.print(Text.from_ansi(shown))
    return console.export_svg(title="shop", code_format=_FORMAT, unique_id="session")


def text_of(svg: str) -> list[str]:
    """The lines of an SVG's text, without the title."""
    rows: dict[float, str] = {}
    for y, words in re.findall(r'<text class="[^"]*-r\d+" x="[^"]*" y="([^"]*)"[^>]*>(.*?)</text>', svg):
        rows[float(y)] = rows.get(float(y), "") + html.unescape(words).replace("\xa0", " ")
    return [" ".join(row.split()) for row in rows.values() if row.strip()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        SVG.write_text(drawn(played(Path(name))), "utf-8")
