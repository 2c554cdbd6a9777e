"""Tables of docs/ that are made from the code: `make docs` writes them, and a test compares them.

A table stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES

PAGE = Path(__file__).parents[1] / "docs" / "ledger-format.md"
_GENERATED = re.compile(r"(?<=<!-- generated: )(?P<name>[\w ]+)( -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)


def _event_types() -> list[str]:
    rows = [
        f"| `{name}` | {one.since} | {one.meaning} | {one.target.event if one.target else ''} |"
        for name, one in EVENT_TYPES.items()
    ]
    return ["| type | since | says | target |", "|---|---|---|---|", *rows]


def _prose() -> list[str]:
    rows = [
        f"| `{name}` | {'yes' if one.all_prose else ''} | {', '.join(_prose_of(one.fields))} |"
        for name, one in EVENT_TYPES.items()
        if one.holds_prose
    ]
    return ["| type | wholly | prose |", "|---|---|---|", *rows]


def _prose_of(fields: Mapping[str, Field], before: str = "") -> list[str]:
    found: list[str] = []
    for name, field in fields.items():
        found += [f"`{before}{name}`"] if field.prose is not None else []
        found += _prose_of(field.within, f"{before}{name}.")
    return found


_TABLES = {"event types": _event_types, "prose": _prose}


def written(page: str) -> str:
    """The page with its tables as the code says them."""
    return _GENERATED.sub(lambda old: "".join([old[1], old[2], *(f"{line}\n" for line in _TABLES[old[1]]())]), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
