"""The ACE reflector's API, for code that has a playbook dict and no ledger (requirements A.3 and
A.5).

Invariant: counters only grow, by one for each usable tag. A tag that cannot be counted changes
nothing and is logged on the logger `reflector`, which writes to stderr if logging is not set up.
`run_reflector` never raises and always returns: after an error its result is the empty one. The
prompt, the call and the parser are those of the ledger's runner. If `.claude/diagnostic_mode`
exists, each error is written to a file.

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
from reflector.transcripts.building import objects, short_in, text_in, texts_of, tool_call
from reflector.transcripts.message import Message, Origin, Role, ToolResult

_log = logging.getLogger("reflector")
# Requirement A-23 puts warnings on stderr. A host that only wants errors must set the level of this
# logger too.
if _log.level == logging.NOTSET:
    _log.setLevel(logging.WARNING)

_REQUEST_TOKENS = 100_000
#: The speaker of each role. A message of any other role was put there by a program.
_SPEAKERS: Mapping[str, tuple[Role, Origin]] = {
    "assistant": ("assistant", "model"),
    "user": ("user", "human"),
}
_INJECTED: tuple[Role, Origin] = ("user", "injected")


def format_playbook(playbook: dict[str, Any], template: str | None = None) -> str:
    """Return the playbook as the agent reads it: a template with the sections and bullets in place
    of `{key_points}`. Return "" for a playbook without bullets, because there is nothing to cite.

    Sections are in canonical order under `## TITLE`; empty ones are omitted. Entries under unknown
    titles go to OTHERS.

    template  None for `load_template("playbook.txt")`
    """
    sections = sections_text(_bullets(playbook))
    if not sections:
        return ""
    if template is None:
        template = load_template("playbook.txt")
    return fill(template, {"key_points": sections})


def _bullets(playbook: dict[str, Any]) -> Iterator[Bullet]:
    """Yield each entry as a bullet; a missing field is empty or 0."""
    for title, entry in _entries(playbook):
        yield Bullet(
            str(entry.get("name", "")),
            section_slug(title),
            str(entry.get("text", "")),
            entry.get("helpful", 0),
            entry.get("harmful", 0),
        )


def apply_bullet_tags(
    playbook: dict[str, Any], bullet_tags: list[dict[str, Any]]
) -> dict[str, Any]:
    """Count the tags in the playbook itself and return it. A helpful or harmful tag adds one, a
    neutral tag adds nothing.

    Two tags of one bullet count twice, and so does a list that is applied again, because one call
    is the evaluation of one session. If two entries have the same name, the last one in the dict is
    counted.
    """
    entries = {
        entry["name"]: entry
        for _, entry in _entries(playbook)
        if isinstance(entry.get("name"), str)
    }
    tags: Any = bullet_tags  # from a model, so its type may differ from the signature
    if not isinstance(tags, list):
        shown = reprlib.repr(tags)
        _log.warning("`bullet_tags` must be a list, not %s; nothing was counted", shown)
        return playbook
    for index, tag in enumerate(tags):
        problem = _count_tag(entries, index, tag)
        if problem:
            _log.warning("%s", problem)
    return playbook


def _count_tag(entries: Mapping[str, dict[str, Any]], index: int, tag: Any) -> str | None:
    """Count one tag. Return the reason if it was not counted, None if it was counted or is
    neutral.
    """
    if not isinstance(tag, dict):
        return f"tag {index} must be an object, not {reprlib.repr(tag)}; the tag was not counted"
    name = tag.get("name")
    verdict = tag.get("tag")
    entry = entries.get(name) if isinstance(name, str) else None
    shown = reprlib.repr(name)
    if entry is None:
        return f"tag {index}: {shown} is not a rule; the tag was not counted"
    if verdict == "neutral":
        return None
    if verdict not in ("helpful", "harmful"):
        called = f"{shown} has the tag {reprlib.repr(verdict)}"
        return f"tag {index}: {called}, which is not a verdict; the tag was not counted"
    count = entry.get(verdict, 0)
    if type(count) is not int:
        wrong = f"{verdict} must be a number, not {reprlib.repr(count)}"
        return f"{name}: {wrong}; the tag was not counted"
    entry[verdict] = count + 1
    return None


def _entries(playbook: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entry of the playbook that is an object, with the title of its section."""
    sections = playbook.get("sections") if isinstance(playbook, dict) else None
    if not isinstance(sections, dict):
        return
    for title, entries in sections.items():
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield str(title), entry


async def run_reflector(
    messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]
) -> dict[str, Any]:
    """Return a model's evaluation of one session: `{"analysis": str, "bullet_tags": [{"name",
    "tag", "rationale"}]}`.

    messages   the classic list of `{"role", "content"}`; a content is a text or a list of blocks
    playbook   a dict in the form of playbook.json
    cited_ids  names of the cited bullets, which are judged; [] for the whole playbook

    The tags are as the model gave them, including those for unknown names. Without a key, without
    an answer and after any error, both values are empty. Model, key and address come from the
    environment (see `ModelSettings`).
    """
    try:
        return _result(await _ask(messages, playbook, cited_ids))
    except Exception as error:  # noqa: BLE001  requirement A-18: it never fails a session's end
        _log.warning("no reflection: %s", redact(str(error)))
        save_diagnostic(f"{type(error).__name__}: {error}", "reflector_error")
        return {"analysis": "", "bullet_tags": []}


async def _ask(
    messages: list[dict[str, Any]], playbook: dict[str, Any], cited_ids: list[str]
) -> str:
    from reflector.judges.api import api_settings
    from reflector.judges.backends.anthropic import ANTHROPIC

    settings = api_settings(ANTHROPIC)
    if not settings.key:
        return ""
    from reflector.judges.excerpt import compose
    from reflector.judges.http_api import HttpClient
    from reflector.judges.messages_api import ask_once
    from reflector.judges.prompts import find_template

    template = find_template("reflector.txt", _project())
    advice = sections_text(_bullets(playbook))
    cited = [name for name in cited_ids if isinstance(name, str)]
    prompt = compose(template, advice, cited, lambda: _messages(messages), _REQUEST_TOKENS)
    reply = await HttpClient(settings, ask_once).send((prompt.before, prompt.after))
    save_diagnostic(f"PROMPT\n{prompt.text}\n\nANSWER\n{reply.text}", "reflector")
    return reply.text


def _messages(messages: list[dict[str, Any]]) -> Iterator[Message]:
    """Yield the messages. A content is a text, or a list of blocks of the Messages API."""
    for number, raw_message in enumerate(messages):
        message = raw_message if isinstance(raw_message, dict) else {}
        role, origin = _SPEAKERS.get(str(message.get("role")), _INJECTED)
        content = message.get("content")
        if isinstance(content, str):
            yield Message(number, str(number), role, origin, "", "", content)
            continue
        blocks = objects(content)
        shown = [block for block in blocks if text_in(block, "type") in ("text", "image")]
        text = "\n".join(texts_of(shown))
        calls = tuple(
            tool_call(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if text_in(block, "type") == "tool_use"
        )
        results = tuple(
            _tool_result(block) for block in blocks if text_in(block, "type") == "tool_result"
        )
        if results and not text:
            origin = "tool"
        if text or calls or results:
            yield Message(
                number, str(number), role, origin, "", "", text, calls=calls, results=results
            )


def _tool_result(block: dict[str, Any]) -> ToolResult:
    text = bounds.result_text("\n".join(texts_of(block.get("content"))))
    return ToolResult(short_in(block, "tool_use_id"), text, block.get("is_error") is True)


def _result(answer: str) -> dict[str, Any]:
    """Return the two keys of an answer, with each entry unchanged. Of a damaged answer, only
    complete entries are returned.
    """
    from reflector.judges.answers import find_answer

    parsed = find_answer(answer).value or {}
    analysis = parsed.get("analysis")
    tags = parsed.get("bullet_tags")
    listed = tags if isinstance(tags, list) else []
    return {
        "analysis": analysis if isinstance(analysis, str) else "",
        "bullet_tags": [tag for tag in listed if isinstance(tag, dict)],
    }


def save_diagnostic(content: str, name: str) -> Path | None:
    """Write `.claude/diagnostic/<time>_<name>.txt`, without secrets, if the project's diagnostic
    mode is on.

    Return the file; None if the mode is off or the file could not be written.
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
