"""The text of `doctor --report`, to paste into an issue.

Invariant: it holds what the program knows of itself and nothing of what people, agents or models wrote: no text of a
session or a bullet, no quoted word, no value that a person chose freely, no address and no name of another project. It
goes through the rules for secrets all the same.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector import __version__, entries
from reflector.config import SETTINGS, Config
from reflector.locate import home_folder
from reflector.resources import DISTRIBUTION
from reflector.text.secrets import redact

if TYPE_CHECKING:
    from reflector.hooks.reach import Check


def report(root: Path, checks: list[Check], config: Config | None, status: Any) -> str:
    """Return the report of a project: its checks, its settings and what `status --json` prints; None for settings that
    are refused."""
    config = config or Config()
    own = {name: getattr(config, name) for name in SETTINGS if config.layer(name) != "default"}
    plain = {name: f" = {value}" for name, value in own.items() if isinstance(value, int)}
    lines = [f"setting {name} ({config.layer(name)}){plain.get(name, '')}" for name in own]
    more = [f"{one.state:<7}  {one.name}: {one.text}" for one in checks]
    more += ["", *_counts(status)] if status is not None else []
    places = {value: f"the {name}" for name, value in own.items() if isinstance(value, str) and len(value) > 2}
    places |= {one.root: "ANOTHER" for one in entries.entries()} | {
        str(root): "PROJECT",
        str(root.resolve()): "PROJECT",
    }
    places |= {home: "~"} if (home := home_folder()) not in ("", os.sep) else {}
    return redact("\n".join([*_versions(), "", *lines, "", *(_plain(line, places) for line in more)])) + "\n"


def _versions() -> Iterator[str]:
    lock = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", free-threaded"
    yield f"reflector {__version__}"
    yield f"{platform.python_implementation()} {platform.python_version()}{lock}"
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    found = []
    for spec in metadata.requires(DISTRIBUTION) or ():
        if re.search(r"extra == .(?!mcp|postgres)", spec) is None:
            with suppress(metadata.PackageNotFoundError):
                found.append(" ".join((name := re.split(r"[^\w.-]", spec)[0], metadata.version(name))))
    yield ", ".join(sorted({*found}))


def _counts(found: Any) -> Iterator[str]:
    if found.ledger is not None:
        yield f"ledger: {found.ledger.url.partition(':')[0]}, {found.ledger.events} events, {found.ledger.counting}"
    windows = ", ".join(f"{count} {state}" for state, count in sorted(found.windows.items()))
    yield f"bullets: {found.bullets}, proposals: {found.proposals}, windows: {windows or 'none'}"
    spool, failed = found.spool, len(found.spool.failed)
    yield f"spool: {spool.pending} pending, {spool.waiting} waiting, {failed} failed, {len(spool.broken)} broken"
    # What an error says may quote what was read; its stage, or its first words, say enough.
    errors = Counter(f"{one.backend}, {one.stage}, {one.state}" for one in found.failures)
    errors += Counter(" ".join(one.error.partition(":")[0].split()[:8]) for one in spool.failed)
    yield from (f"error: {what} ({count} times)" for what, count in errors.most_common(10))


def _plain(line: str, places: Mapping[str, str]) -> str:
    """Return a line without quoted words and addresses, and with other words for a person's places and choices."""
    for place in sorted(places, key=len, reverse=True):
        line = line.replace(place, places[place])
    return re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”", "'…'", re.sub(r"\b[a-z+]+://\S+", "URL", line))
