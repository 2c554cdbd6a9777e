"""What the site has beyond docs/: the README is its first page, and a file of the repository is named, not linked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]


def on_files(files: Any, config: Any) -> Any:
    """Add the README, with links as they are from docs/."""
    text = (ROOT / "README.md").read_text("utf-8").replace("](docs/decisions)", "](docs/design.md#decisions)")
    text = re.sub(r"\]\((?!https?:)(?!docs/)([^)#]+)", r"](../\1", text).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name what lies outside of docs/: `[text](../pyproject.toml)` is its text, with its place where that differs."""

    def named(link: re.Match[str]) -> str:
        said, place = link[1], (ROOT / "docs" / page.file.src_uri).parent.joinpath(link[2]).resolve()
        if place.is_relative_to(ROOT / "docs"):
            return link[0]
        name = str(place.relative_to(ROOT))
        return said if said.strip("`") == name else f"{said} (`{name}` of the repository)"

    return re.sub(r"\[([^\]]+)\]\((\.\./[^)#]+)(?:#[^)]*)?\)", named, markdown)
