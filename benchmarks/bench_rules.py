"""How often `rules` is right: on invented sessions that are kept here, and on real ones where they are at hand.

Invariant: no row fails because files that cannot be kept here are missing; it says so in its note.

`rules_sessions.jsonl` holds invented sessions in batches of growing age, one per line: bullets with the label
that was set before `rules` was run on them, and the messages. The rules were improved after each batch was
judged, so these figures guard against loss; they are no measure of other sessions.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness import Row
from benchmarks.rules_quality import PRECISION, RECALL, Case, judged
from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Request
from reflector.transcripts.message import Message, ToolCall, ToolResult

_HERE = Path(__file__).resolve().parent
_ROLES = {"human": "user", "refusal": "user", "injected": "user", "summary": "user"}


def rows(quick: bool) -> list[Row]:
    """Precision and recall of helpful and of harmful; the real sessions are left out where `quick`."""
    lines = (_HERE / "rules_sessions.jsonl").read_text(encoding="utf-8").splitlines()
    made: Counter[tuple[str, str]] = Counter()
    for line in lines:
        made.update(answered(json.loads(line)))
    shown = _shown("invented sessions", made, f"{len(lines)} sessions, {made.total()} citations; kept, so in-sample")
    return shown if quick else shown + _real()


def answered(session: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, tag) of each bullet of one invented session."""
    bullets = tuple(Bullet(name, name.split("-")[0], given["text"]) for name, given in session["bullets"].items())
    messages = [_message(*entry) for entry in session["messages"]]
    request = Request("benchmark", bullets, tuple(session["bullets"]), lambda: iter(messages))
    tags = json.loads(RulesBackend().answer(request).text)["bullet_tags"]
    return [(session["bullets"][tag["name"]]["label"], tag["tag"]) for tag in tags]


def _message(kind: str, chain: str, *given: Any) -> Message:
    if kind == "calls":
        number, tool, arguments = given
        return Message(0, "", "assistant", "model", chain, "", "", calls=(ToolCall(number, tool, arguments),))
    if kind == "result":
        number, text, is_error = given
        return Message(0, "", "user", "tool", chain, "", "", results=(ToolResult(number, text, is_error),))
    if kind == "thinks":
        return Message(0, "", "assistant", "model", chain, "", "", thinking=given[0])
    if kind == "agent":
        return Message(0, "", "assistant", "model", chain, "", given[0])
    return Message(0, "", _ROLES[kind], kind, chain, "", given[0])  # type: ignore[arg-type]


def _real() -> list[Row]:
    """The labelled citations in real transcripts, which lie in the folder `REFLECTOR_TRANSCRIPTS`."""
    folder = Path(os.environ.get("REFLECTOR_TRANSCRIPTS", ""))
    lines = (_HERE / "rules_labels.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [Case(**json.loads(line)) for line in lines if line]
    if not os.environ.get("REFLECTOR_TRANSCRIPTS") or any(not (folder / case.file).is_file() for case in cases):
        note = "skipped: set REFLECTOR_TRANSCRIPTS to the folder of the labelled transcripts"
        return [Row("rules, real sessions", 0.0, 0.0, 0.0, None, note, "")]
    pairs = Counter((case.label, judged(folder / case.file, case)[0]) for case in cases)
    return _shown("real sessions", pairs, f"{len(cases)} citations")


def _shown(where: str, pairs: Counter[tuple[str, str]], note: str) -> list[Row]:
    """Floor is what is wanted, so the ratio of wanted to reached must not exceed one."""
    shown = []
    for tag in ("helpful", "harmful"):
        right = pairs[tag, tag]
        given = sum(count for (_, answer), count in pairs.items() if answer == tag)
        wanted = sum(count for (label, _), count in pairs.items() if label == tag)
        for name, goal, of in (("precision", PRECISION, given), ("recall", RECALL, wanted)):
            reached = right / of if of else 0.0
            ratio = goal / reached if reached else float("inf")
            shown.append(
                Row(
                    f"rules, {where}: {name} of {tag}",
                    100 * goal,
                    100 * reached,
                    ratio,
                    1.0,
                    f"{right}/{of}; {note}",
                    "%",
                )
            )
    return shown
