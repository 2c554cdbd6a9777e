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
from collections.abc import Iterator
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
    lines = [*_versions(), "", *(f"setting {one}" for one in _settings(config)), ""]
    more = [f"{one.state:<7}  {one.name}: {one.text}" for one in checks]
    more += ["", *_counts(status)] if status is not None else []
    for name in SETTINGS:
        if _is_free(config, name) and isinstance(value := getattr(config, name), str):
            more = [line.replace(value, f"the {name}") for line in more]
    return redact("\n".join([*lines, *(_plain(line, root) for line in more)])) + "\n"


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


def _settings(config: Config) -> Iterator[str]:
    """Yield each setting that is set, with its value only where that is a number, a switch or one of few words."""
    for name in SETTINGS:
        if config.layer(name) != "default":
            yield f"{name} ({config.layer(name)}){'' if _is_free(config, name) else f' = {getattr(config, name)}'}"


def _is_free(config: Config, name: str) -> bool:
    """Return whether a person chose the words of a setting."""
    value = getattr(config, name)
    return isinstance(value, (str, tuple)) and value not in (SETTINGS[name].default, *_WORDS)


_WORDS = ("rules", "agent", "anthropic", "fixtures", "turn", "step", "accept", "draw", "best", "apply", "own")


def _counts(found: Any) -> Iterator[str]:
    if found.ledger is not None:
        yield f"ledger: {found.ledger.url.partition(':')[0]}, {found.ledger.events} events, {found.ledger.counting}"
    windows = ", ".join(f"{count} {state}" for state, count in sorted(found.windows.items()))
    yield f"bullets: {found.bullets}, proposals: {found.proposals}, windows: {windows or 'none'}"
    spool = found.spool
    lost = f"{len(spool.failed)} failed, {len(spool.broken)} broken"
    yield f"spool: {spool.pending} pending, {spool.waiting} waiting, {lost}"
    # What an error says may quote what was read; its stage, or its first words, say enough.
    failed = Counter(f"{one.backend}, {one.stage}, {one.state}" for one in found.failures)
    failed += Counter(" ".join(one.error.partition(":")[0].split()[:8]) for one in spool.failed)
    yield from (f"error: {what} ({count} times)" for what, count in failed.most_common(10))


def _plain(line: str, root: Path) -> str:
    """Return a line without quoted words, addresses and the folders of a person."""
    line = re.sub(r"\b[a-z+]+://\S+", "URL", line)
    line = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”", "'…'", line)
    own = {str(root), str(root.resolve())}
    others = {one.root for one in entries.entries()} - own
    for place, name in [*((one, "PROJECT") for one in own), *((one, "ANOTHER") for one in others)]:
        line = line.replace(place, name)
    home = home_folder()
    return line.replace(home, "~") if home not in ("", os.sep) else line
