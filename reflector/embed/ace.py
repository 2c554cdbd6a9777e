"""The ACE reflector's API, for code that has a playbook dict and no ledger: requirements A.3 and
A.5.

Invariant: counters only grow, by one for each usable tag; a tag that cannot be counted changes
nothing and is logged on the logger `reflector` (with no logging set up, on stderr). `run_reflector`
never raises and never waits for ever: on any error its result is the empty one. Prompt, call and
parser are those of the ledger's runner. Where `.claude/diagnostic_mode` exists, each error is
written to a file.

The dict has the form of playbook.json: `{"sections": {title: [{"name", "text", "helpful",
"harmful"}]}}`.
"""

from __future__ import annotations

import logging
import os
import reprlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reflector import files
from reflector.judges.prompts import fill, load_template
from reflector.playbook.bullet import Bullet, sections_text
from reflector.playbook.names import section_slug
from reflector.text import bounds
from reflector.text.secrets import redact
from reflector.transcripts import building
from reflector.transcripts.message import Message, Origin, Role, ToolResult

_log = logging.getLogger("reflector")
# Requirement A-23 has it on stderr: a host that only wants errors of everybody has to say so of
# this logger too.
if _log.level == logging.NOTSET:
    _log.setLevel(logging.WARNING)

_NO_VERDICT = "tag %d: %s is called %s, not helpful, harmful or neutral; it was not counted"
_REQUEST_TOKENS = 100_000
#: Who says what a role says. Whatever is neither a person's nor the model's was put there by a
#: program.
_SPEAKERS: Mapping[str, tuple[Role, Origin]] = {
    "assistant": ("assistant", "model"),
    "user": ("user", "human"),
}
_NOBODY_KNOWN: tuple[Role, Origin] = ("user", "injected")


def format_playbook(playbook: dict[str, Any], template: str | None = None) -> str:
    """Return the playbook as the agent reads it: `template`, or `load_template("playbook.txt")`,
    with sections and bullets in place of `{key_points}`. Sections are in canonical order under `##
    TITLE`, empty ones left out, and entries under unknown titles go to OTHERS. Without any bullet
    the result is "": no agent is asked to cite what is not there.
    """
    sections = sections_text(bullets_of(playbook))
    if not sections:
        return ""
    return fill(
        load_template("playbook.txt") if template is None else template, {"key_points": sections}
    )


def bullets_of(playbook: dict[str, Any]) -> Iterator[Bullet]:
    """Everything in the playbook that has the form of a bullet; what it lacks is empty or 0."""
    for title, entry in _entries(playbook):
        name = str(entry.get("name", ""))
        text = str(entry.get("text", ""))
        yield Bullet(
            name, section_slug(title), text, entry.get("helpful", 0), entry.get("harmful", 0)
        )


def apply_bullet_tags(
    playbook: dict[str, Any], bullet_tags: list[dict[str, Any]]
) -> dict[str, Any]:
    """Count the tags in the playbook itself and return it: helpful and harmful add one, neutral
    nothing, also the second of the same bullet, and when the same list is applied again: one call
    is the evaluation of one session. Of two entries with one name the last in the dict is counted.
    """
    entries = {
        entry["name"]: entry
        for _, entry in _entries(playbook)
        if isinstance(entry.get("name"), str)
    }
    tags: Any = bullet_tags  # from a model, so whatever the signature says, it may be anything
    if not isinstance(tags, list):
        _log.warning("bullet_tags is not a list but %s; nothing was counted", reprlib.repr(tags))
        return playbook
    for index, given in enumerate(tags):
        if not isinstance(given, dict):
            _log.warning(
                ("tag %d is not an object but %s; it was not counted"), index, reprlib.repr(given)
            )
            continue
        name = given.get("name")
        tag = given.get("tag")
        entry = entries.get(name) if isinstance(name, str) else None
        if entry is None:
            _log.warning(
                ("tag %d: no bullet is named %s; it was not counted"), index, reprlib.repr(name)
            )
        elif tag in ("helpful", "harmful"):
            count = entry.get(tag, 0)
            if type(count) is int:
                entry[tag] = count + 1
            else:
                _log.warning(
                    "%s: %s is not a number but %s; the tag was not counted",
                    name,
                    tag,
                    reprlib.repr(count),
                )
        elif tag != "neutral":
            _log.warning(_NO_VERDICT, index, reprlib.repr(name), reprlib.repr(tag))
    return playbook


def _entries(playbook: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Title and entry of everything in the playbook that has the form of a bullet."""
    sections = playbook.get("sections") if isinstance(playbook, dict) else None
    for title, entries in sections.items() if isinstance(sections, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield str(title), entry


async def run_reflector(
    messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]
) -> dict[str, Any]:
    """Return a model's view of one session: `{"analysis": str, "bullet_tags": [{"name", "tag",
    "rationale"}]}`.

    messages   the classic list of `{"role", "content"}`; a content is a text or a list of blocks
    playbook   the form of playbook.json
    cited_ids  names the agent cited: these are judged; [] has the whole playbook looked through

    Tags are as the model gave them, for unknown names as well. Without a key, without an answer and
    on any error both are empty. Model, key and address come from the environment (see
    `ModelSettings`).
    """
    try:
        return _result(await _ask(messages, playbook, cited_ids))
    # Requirement A-18: a session's end never fails for its reflection.
    except Exception as error:  # noqa: BLE001
        _log.warning("no reflection: %s", redact(str(error)))
        save_diagnostic(f"{type(error).__name__}: {error}", "reflector_error")
        return {"analysis": "", "bullet_tags": []}


async def _ask(
    messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]
) -> str:
    from reflector.judges.api_settings import model_settings

    settings = model_settings()
    if settings.key is None:
        return ""
    from reflector.judges.excerpt import compose
    from reflector.judges.messages_api import AnthropicClient
    from reflector.judges.prompts import find_template

    template = find_template("reflector.txt", _project())
    advice = sections_text(bullets_of(playbook))
    cited = [name for name in cited_ids if isinstance(name, str)]
    prompt = compose(template, advice, cited, lambda: _messages(messages), _REQUEST_TOKENS)
    reply = await AnthropicClient(settings).send((prompt.before, prompt.after))
    save_diagnostic(f"PROMPT\n{prompt.text}\n\nANSWER\n{reply.text}", "reflector")
    return reply.text


def _messages(messages: list[dict[str, Any]]) -> Iterator[Message]:
    """Yield what was said and called; a content is a text, or blocks as the Messages API has
    them.
    """
    for number, message in enumerate(messages):
        given = message if isinstance(message, dict) else {}
        role, origin = _SPEAKERS.get(str(given.get("role")), _NOBODY_KNOWN)
        content = given.get("content")
        if isinstance(content, str):
            yield Message(number, str(number), role, origin, "", "", content)
            continue
        blocks = building.objects(content)
        text = "\n".join(
            building.texts([one for one in blocks if building.kind(one) in ("text", "image")])
        )
        calls = tuple(
            building.call(one.get("id"), one.get("name"), one.get("input"))
            for one in blocks
            if building.kind(one) == "tool_use"
        )
        results = tuple(_answered(one) for one in blocks if building.kind(one) == "tool_result")
        if results and not text:
            origin = "tool"
        if text or calls or results:
            yield Message(
                number, str(number), role, origin, "", "", text, calls=calls, results=results
            )


def _answered(block: dict[str, Any]) -> ToolResult:
    """Return what a tool answered, from its block."""
    text = bounds.result_text("\n".join(building.texts(block.get("content"))))
    return ToolResult(
        building.short_text(block.get("tool_use_id")), text, block.get("is_error") is True
    )


def _result(answer: str) -> dict[str, Any]:
    """Return the answer's two keys, each entry unchanged; of a damaged answer what is whole of
    it.
    """
    from reflector.judges.answers import find_answer

    given = find_answer(answer).value or {}
    analysis = given.get("analysis")
    tags = given.get("bullet_tags")
    entries = [tag for tag in tags if isinstance(tag, dict)] if isinstance(tags, list) else []
    return {"analysis": analysis if isinstance(analysis, str) else "", "bullet_tags": entries}


def save_diagnostic(content: str, name: str) -> Path | None:
    """Write `.claude/diagnostic/<time>_<name>.txt`, without secrets, where the project's diagnostic
    mode is on; return the file, None where the mode is off or nothing could be written.
    """
    try:
        folder = _project() / ".claude"
        if not (folder / "diagnostic_mode").exists():
            return None
        target = files.private_folder(files.absolute(folder / "diagnostic"))
        file = f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%fZ')}_{name}.txt"
        return Path(files.write_durably(target, redact(content).encode("utf-8", "replace"), file))
    except OSError:
        return None


def _project() -> Path:
    return Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd())
