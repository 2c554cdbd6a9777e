"""What the site has beyond docs/: the README is its first page, and a file of the repository is
named, not linked.

Its search works from disk, too, loads nothing from elsewhere, and finds how to do a thing before
its definition.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
#: How much more a hit counts in a group of pages; what is in none, the decisions, is not found.
BOOSTS = {"Start": 4, "Use": 2, "Understand": 1, "Run it for a team": 0.5}


def on_files(files: Any, config: Any) -> Any:
    """Add the README, with links as they are from docs/, and the script by which the search
    works from disk.
    """
    text = (
        (ROOT / "README.md")
        .read_text("utf-8")
        .replace("](docs/decisions)", "](docs/design.md#decisions)")
    )
    text = re.sub(r"\]\((?!https?:)(?!docs/)([^)#]+)", r"](../\1", text).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    files.append(
        File.generated(
            config,
            "assets/iframe-worker.js",
            content=(ROOT / ".ci/from_disk.js").read_text("utf-8"),
        )
    )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name what lies outside of docs/: `[text](../pyproject.toml)` is its text, with its place
    where that differs. Rank the page for the search.
    """
    group = page.parent.title if page.parent else None
    page.meta["search"] = {"boost": BOOSTS[group]} if group in BOOSTS else {"exclude": True}

    def named(link: re.Match[str]) -> str:
        said, place = (
            link[1],
            (ROOT / "docs" / page.file.src_uri).parent.joinpath(link[2]).resolve(),
        )
        if place.is_relative_to(ROOT / "docs"):
            return link[0]
        name = str(place.relative_to(ROOT))
        return said if said.strip("`") == name else f"{said} (`{name}` of the repository)"

    return re.sub(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)", named, markdown)
