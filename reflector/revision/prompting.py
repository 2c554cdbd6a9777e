"""The prompts for an embedder's own model: reflect on a turn, judge a step, improve an answer, revise it.

Invariant: the same arguments and templates give the same prompt, byte for byte, and nobody is called. What is filled in
is never read as a template. The texts are the embedder's, for the embedder's own model: they are not redacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from reflector.quality.signals import QualitySignals
from reflector.reflection.prompts import find_template

#: How an answer is revised: by writing it again, or by carrying the request out again with tools that only read.
Revision = Literal["text", "read_only"]
ToolResult = Mapping[str, Any] | str

_HOW: Mapping[Revision, str] = {
    "text": "Write the answer again, following the strategy. You have no tools: claim nothing that you did not see.",
    "read_only": "Carry the request out again, following the strategy. Use tools that only read; change nothing.",
}


def build_reflection_prompt(
    user_request: str,
    response: str,
    signals: QualitySignals,
    tool_errors: Iterable[ToolResult] = (),
    *,
    project: Path | None = None,
) -> str:
    """Return the prompt that asks for attempt, issue, strategy and tags of a turn.

    `tool_errors` are texts, or tool results, whose errors are listed as `name: error`. Raises TemplateError.
    """
    listed = "\n".join(f"- {error}" for error in _errors(tool_errors))
    return find_template("turn.txt", project).fill(
        {
            "user_request": user_request,
            "score": f"{signals.score():.2f}",
            "response": response,
            "tool_errors": f"\nTool errors encountered:\n{listed}\n" if listed else "",
        }
    )


def build_step_prompt(
    goal: str,
    step_description: str,
    response: str,
    tool_results: Iterable[ToolResult],
    lessons: Iterable[str],
    project: Path | None = None,
) -> str:
    """Return the prompt that asks for the quality score, the issues and a fix of a step. Raises TemplateError."""
    return find_template("step.txt", project).fill(
        {
            "goal": goal,
            "step_description": step_description,
            "response": response,
            "tool_results": _listed(map(_result, tool_results)),
            "lessons": _listed(lessons),
        }
    )


def build_improvement_prompt(
    original_response: str, issues: Sequence[str] | str, goal: str, project: Path | None = None
) -> str:
    """Return the prompt that asks for a better response. Raises TemplateError."""
    listed = _listed([issues] if isinstance(issues, str) else issues)
    return find_template("improvement.txt", project).fill(
        {"original_response": original_response, "issues": listed, "goal": goal}
    )


def build_revision_prompt(user_request: str, response: str, reflection: str, mode: Revision) -> str:
    """Return the prompt that asks for an answer again, after a reflection on it. Raises TemplateError."""
    return find_template("revision.txt").fill(
        {"user_request": user_request, "response": response, "reflection": reflection, "how": _HOW[mode]}
    )


def _errors(results: Iterable[ToolResult]) -> Iterable[str]:
    for result in results:
        if isinstance(result, str):
            yield result
        elif result.get("status", "error") == "error":
            yield f"{result.get('name')}: {result.get('error')}"


def _result(result: ToolResult) -> str:
    if isinstance(result, str):
        return result
    said = result.get("error") or result.get("output") or result.get("result")
    return f"{result.get('name')}: {result.get('status')}{f' ({said})' if said else ''}"


def _listed(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts) or "none"
