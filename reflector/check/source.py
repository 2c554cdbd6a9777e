"""The lines that `check` examines: those of files, and the rules of the playbook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reflector.playbook_files.watching import PLAYBOOK, Advice, advice_of, playbook_lines
from reflector.project import Project
from reflector.sessions import checks
from reflector.text.words import context_tokens

#: The most unread files in an error.
_MOST_UNREAD = 3


def advice_to_check(project: Project, files: Sequence[Path]) -> Advice:
    """Return the advice of the named files, or else of the files that agents load and the playbook.

    Raises: OSError if a named file cannot be read.
    """
    advice = advice_of(project.root, files)
    if files:
        return advice
    with checks.open_or_empty(project) as ledger:
        rules = playbook_lines(ledger, advice.lines, first=project.first_number)
    if not rules:
        return advice
    tokens = sum(context_tokens(rule.text) for rule in rules)
    return advice._replace(lines=(*advice.lines, *rules), files={**advice.files, PLAYBOOK: tokens})


def no_line_words(advice: Advice) -> str:
    """Return the reason why there is nothing to check, and the way out."""
    unread = [text for text in advice.omitted if text.startswith("not read: ")]
    reasons = unread[:_MOST_UNREAD] or ["no CLAUDE.md, AGENTS.md, GEMINI.md or rules file found"]
    return "; ".join([*reasons, "name a file: reflector check FILE"])
