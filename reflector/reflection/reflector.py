"""`run_reflector`: the ACE reflector's call, for code that has its own playbook dict and no ledger.

Invariant: it never raises and never waits for ever; whatever goes wrong, the answer is the empty one. Prompt, call
and parser are those of the ledger's runner. Where `.claude/diagnostic_mode` exists, what went wrong is written to a
file of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflector.playbook.names import is_name
from reflector.playbook.sections import sections_text
from reflector.reflection.answers import find_answer, parse_answer
from reflector.reflection.classic import bullets_of
from reflector.text.secrets import redact
from reflector.transcripts.message import Message, Origin, Role

_log = logging.getLogger("reflector")
_REQUEST_TOKENS = 100_000
#: Who says what a role says. Whatever is neither a person's nor the model's was put there by a program.
_SPEAKERS: Mapping[str, tuple[Role, Origin]] = {"assistant": ("assistant", "model"), "user": ("user", "human")}
_NOBODY_KNOWN: tuple[Role, Origin] = ("user", "injected")


async def run_reflector(
    messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]
) -> dict[str, Any]:
    """A model's view of one session: `{"analysis": str, "bullet_tags": [{"name", "tag", "rationale"}]}`.

    messages   the classic list of `{"role", "content"}`
    playbook   the form of playbook.json
    cited_ids  names the agent cited: these are judged; [] has the whole playbook looked through

    Tags are as the model gave them, for unknown names as well. Without a key, without an answer and on any
    error both are empty. Model, key and address come from the environment (see `ModelSettings`).
    """
    try:
        answer = await _ask(messages, playbook, cited_ids)
        return _result(answer)
    except Exception as error:  # noqa: BLE001  requirement A-18: a session's end never fails for its reflection
        _log.warning("no reflection: %s", redact(str(error)))
        save_diagnostic(f"{type(error).__name__}: {error}", "reflector_error")
        return {"analysis": "", "bullet_tags": []}


async def _ask(messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]) -> str:
    from reflector.reflection.backends.anthropic.calling import ask
    from reflector.reflection.backends.anthropic.settings import model_settings
    from reflector.reflection.prompting import compose
    from reflector.reflection.prompts import find_template

    settings = model_settings()
    if settings.key is None:
        return ""
    prompt = compose(
        find_template("reflector.txt", _project()),
        sections_text(bullets_of(playbook)),
        [name for name in cited_ids if isinstance(name, str)],
        lambda: _messages(messages),
        _REQUEST_TOKENS,
        most_parts=1,
    )
    reply = await ask(settings, prompt.blocks)
    save_diagnostic(f"PROMPT\n{prompt.text}\n\nANSWER\n{reply.text}", "reflector")
    return reply.text


def _messages(messages: list[dict[str, Any]]) -> Iterator[Message]:
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            role, origin = _SPEAKERS.get(str(message.get("role")), _NOBODY_KNOWN)
            yield Message(number, str(number), role, origin, "", "", content)


def _result(answer: str) -> dict[str, Any]:
    """The answer's two keys, each entry as it stands where the object is sound, else what could be read of it."""
    found = find_answer(answer)
    analysis, tags = found.answer.get("analysis", ""), found.answer.get("bullet_tags", [])
    if found.strategy != "repaired" and isinstance(analysis, str) and isinstance(tags, list):
        return {"analysis": analysis, "bullet_tags": [tag for tag in tags if isinstance(tag, dict)]}
    parsed = parse_answer(answer)
    tags = [
        {"name": tag.name, "tag": tag.tag, "rationale": tag.rationale}
        for tag in parsed.tags
        if tag.malformed is None and is_name(tag.name)
    ]
    return {"analysis": parsed.analysis, "bullet_tags": tags}


def save_diagnostic(content: str, name: str) -> Path | None:
    """Write a diagnostic file where the project's diagnostic mode is on: `.claude/diagnostic/<time>_<name>.txt`.

    Secrets are taken out. Returns the file, None where the mode is off or nothing could be written.
    """
    try:
        folder = _project() / ".claude"
        if not (folder / "diagnostic_mode").exists():
            return None
        target = folder / "diagnostic"
        target.mkdir(exist_ok=True, mode=0o700)
        path = target / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%fZ')}_{name}.txt"
        path.write_text(redact(content), "utf-8", errors="replace")
    except OSError:
        return None
    return path


def _project() -> Path:
    return Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd())
