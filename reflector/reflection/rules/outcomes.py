# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""How a tool call ended, read from its answer and from what kind of call it was.

Invariant: `is_error` is one sign among several. A pipe hides an exit code, a flagged error may be
mechanics, and only a check can pass: a page that was read without an error proves nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from reflector.reflection.rules.steps import CHECKS, Step
from reflector.reflection.rules.table import Rule, found
from reflector.reflection.rules.words_of_failures import FAILING_LINES, MECHANICS, UNUSABLE
from reflector.reflection.rules.words_of_runners import COUNTED
from reflector.transcripts.message import ToolResult

Ending = Literal["passes", "fails", "unusable", "mechanics", "silent"]

#: Kinds whose text is read for failure. The text of a file that was looked at is not a result.
_TELLING = CHECKS | {"run", "install", "ship", "poll"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`quote` is the decisive line as printed; `signature` is that line without what changes between runs."""

    ending: Ending
    strength: int
    quote: str
    signature: str
    rule: str


_SILENT = Outcome("silent", 0, "", "", "")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_VARIABLE = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\d+(?:\.\d+)*|/?(?:[\w.@~-]+[/\\])+")


def signature(line: str) -> str:
    """Return an error line without numbers, hashes and folders: equal for the same error in two runs."""
    return " ".join(_VARIABLE.sub("#", line[:400].lower()).split())[:120]


def read_result(step: Step, result: ToolResult) -> Outcome:
    """Return how this call ended.

    For `poll` calls the step given is the one of the background task that is asked about, if known.
    """
    text = _ANSI.sub("", result.text)
    if result.is_error:
        return _flagged(step, text)
    if step.kind not in _TELLING or step.family.startswith("mcp__"):
        return _SILENT
    if step.kind in CHECKS or step.kind in ("run", "poll", "ship"):
        for rule in COUNTED:
            match = found(rule, text)
            if match is not None:
                return _outcome("fails" if rule.signal == "fails" else "passes", rule, text, match)
    for rule in UNUSABLE:
        match = found(rule, text)
        if match is not None and len(text) < 1500:
            return _outcome("unusable", rule, text, match)
    for rule in FAILING_LINES:
        match = found(rule, text)
        if match is not None and not (step.kind in ("run", "poll") and rule.strength < 3 and len(text) > 2000):
            return _outcome("fails", rule, text, match)
    return _quiet(step, text)


def _quiet(step: Step, text: str) -> Outcome:
    """Return an unflagged answer without any word of failure."""
    if "running in background" in text[:400] or "<status>running" in text[:200]:
        return _SILENT
    if step.kind in ("lint", "types") and _FINDING.search(text):
        return _SILENT  # a list of places is no clean bill, whatever the exit code
    if step.kind in ("lint", "types", "build"):
        return Outcome("passes", 2, _shown(text) or "no output", "", "no-complaint")
    if step.family == "ship:git push":
        return Outcome("passes", 2, _shown(text), "", "pushed")
    if step.kind in ("run", "install"):
        return Outcome("passes", 1, _shown(text), "", "ran")
    return _SILENT


def _flagged(step: Step, text: str) -> Outcome:
    for rule in MECHANICS:
        match = found(rule, text)
        # A compiler that misses a file is a finding, an `ls` that misses one is mechanics.
        if match is not None and not (
            rule.id == "wrong-place" and step.kind in CHECKS and ": cd: " not in text and "can't cd" not in text
        ):
            return _outcome("mechanics", rule, text, match)
    for rule in UNUSABLE:
        match = found(rule, text)
        if match is not None and len(text) < 3000:
            return _outcome("unusable", rule, text, match)
    if step.kind in ("look", "tidy", "poll", "admin", "plan") and not step.verifies:
        return Outcome("mechanics", 1, _shown(text), signature(_shown(text)), "flagged-look")
    for rules in (COUNTED, FAILING_LINES):
        for rule in rules:
            match = found(rule, text) if rule.signal == "fails" and rule.id != "exit-code" else None
            if match is not None:
                return _outcome("fails", rule, text, match)
    line = _shown(re.sub(r"^(?:Error: )?Exit code \d+\s*", "", text.lstrip())) or _shown(text)
    return Outcome("fails", 2, line, signature(line), "flagged-error")


def _outcome(ending: Ending, rule: Rule, text: str, match: re.Match[str]) -> Outcome:
    start = text.rfind("\n", 0, match.start() + 1) + 1
    if match.group(0)[:1] == "\n":
        start = match.start() + 1
    end = text.find("\n", max(match.end() - 1, start))
    line = " ".join(text[start : len(text) if end < 0 else end].split())[:240]
    return Outcome(ending, rule.strength, line, signature(_first_error(text) or line), rule.id)


_FINDING = re.compile(r"^\s*[\w./-]+\.\w{1,5}:\d+", re.MULTILINE)
_ERROR_LINE = re.compile(
    r"^.*(?:\w*(?:Error|Exception)\b|error(?:\[\w+\]| TS\d+)?:|undefined:|--- FAIL|^FAILED |✕|✗|✘|panic:|fatal:|expected|cannot |Cannot |not found).*$",
    re.MULTILINE,
)


def _first_error(text: str) -> str:
    match = _ERROR_LINE.search(text)
    return match.group(0) if match else ""


def _shown(text: str) -> str:
    """Return the last line with words in it: what a run ends with says how it went."""
    for line in reversed(text.strip().splitlines()[-12:]):
        if re.search(r"\w{2}", line):
            return " ".join(line.split())[:240]
    return ""
