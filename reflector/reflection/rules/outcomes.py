"""How a tool call ended, read from its answer and from what kind of call it was.

Invariant: `is_error` is one sign among several. A pipe hides an exit code, a flagged error may be mechanics of editing
and shells, and only a check can pass: a page that was read without an error proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from reflector.reflection.rules.steps import CHECKS, Step
from reflector.reflection.rules.wordings import Wording, first, wordings

#: `ran` is a command that ended without an error: proof only where it had failed before.
Ending = Literal["passes", "fails", "ran", "mechanics", "silent"]

#: Kinds whose text is read for failure. The text of a file that was looked at is not a result.
_TELLING = CHECKS | {"run", "install", "ship"}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FINDING = re.compile(r"^\s*[\w./-]+\.\w{1,5}:\d+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """`quote` is the decisive line as printed, at most 240 characters."""

    ending: Ending
    quote: str
    rule: str


_SILENT = RunEnd("silent", "", "")


def read_result(step: Step, text: str, is_error: bool) -> RunEnd:
    """Return how a call ended that answered this text."""
    if not is_error and (step.kind not in _TELLING or step.is_mcp):
        return _SILENT
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if is_error:
        return _flagged(step, text)
    counts = wordings("counted", "check") if step.kind in CHECKS else wordings("counted")
    found = first(counts, text) or first(wordings("line"), text[:_LONG] if step.kind not in CHECKS else text)
    if found is not None:
        return _outcome(found[0], text, found[1])
    if step.kind in ("lint", "types", "build") and not _FINDING.search(text) and not _goes_on(text):
        return RunEnd("passes", _last_line(text) or "no output", "no-complaint")
    if step.kind in ("run", "install", "ship") and not _goes_on(text):
        return RunEnd("ran", _last_line(text) or "no output", "ran")
    return _SILENT


#: A longer answer of a command that is no check holds text of all kinds.
_LONG = 2000


def _goes_on(text: str) -> bool:
    return "running in background" in text[:400] or "<status>running" in text[:200]


def _flagged(step: Step, text: str) -> RunEnd:
    found = first(wordings("mechanics"), text)
    # A compiler that misses a file is a finding, an `ls` that misses one is mechanics.
    if found is not None and not (found[0].id == "wrong-place" and step.kind in CHECKS and ": cd: " not in text):
        return RunEnd("mechanics", "", found[0].id)
    if step.kind in ("look", "tidy", "admin", "plan"):
        return RunEnd("mechanics", "", "flagged-look")
    failing = [row for row in wordings("counted", "check", "line") if row.says == "fails" and row.id != "exit-code"]
    found = first(failing, text)
    if found is not None:
        return _outcome(found[0], text, found[1])
    line = _last_line(re.sub(r"^(?:Error: )?Exit code \d+\s*", "", text.lstrip())) or _last_line(text)
    return RunEnd("fails", line, "flagged-error")


def _outcome(row: Wording, text: str, match: re.Match[str]) -> RunEnd:
    start = text.rfind("\n", 0, match.start() + 1) + 1
    if match.group(0)[:1] == "\n":
        start = match.start() + 1
    end = text.find("\n", max(match.end() - 1, start))
    line = " ".join(text[start : len(text) if end < 0 else end].split())[:240]
    return RunEnd("passes" if row.says == "passes" else "fails", line, row.id)


def _last_line(text: str) -> str:
    """Return the last line with words in it: what a run ends with says how it went."""
    lines = (line for line in reversed(text.strip().splitlines()[-12:]) if re.search(r"\w{2}", line))
    return " ".join(next(lines, "").split())[:240]
