"""What the agent is told at a session's start: the best of the playbook, within what the agent will read.

Invariant: what is printed fits. Over 10,000 characters Claude Code hands the agent a 2,000-character
preview instead, and no model was seen to open the file it points to. So the bullets are taken best first
while the longer of the two forms (JSON, escapes included) stays within `LIMIT`, cut between bullets, and
the text says how many were left out.

The text is rendered when the projection is written, and by the hook itself where playbook.json or a
template changed since. Both come here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reflector.hooks import fast
from reflector.playbook.bullet import Bullet, best_first
from reflector.playbook.names import SECTIONS, is_name, section_slug
from reflector.resources import resource_dir

#: Characters of stdout, counted as the agent's JavaScript counts them (UTF-16 code units).
LIMIT = 9_500
PLACEHOLDER = "{key_points}"
#: A larger playbook.json is not read: 100 times what 1,000 long bullets take.
MAX_PLAYBOOK = 64 * 1024 * 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_REMINDER = re.compile(r"<(?=/?system-reminder)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Injection:
    """The two forms of one text, both "" where there is nothing to say, and how many bullets they hold."""

    text: str
    json: str
    shown: int
    left_out: int


def template(project: Path) -> str:
    """The project's own template, else the user's, else the packaged one.

    Raises ValueError where the template lacks the placeholder, has it twice, or would be taken for JSON.
    """
    own = (project / ".claude/reflector/prompts/playbook.txt", Path(fast.user_template()))
    path = next((path for path in own if path.is_file()), resource_dir("prompts") / "playbook.txt")
    text = path.read_text("utf-8")
    if text.count(PLACEHOLDER) != 1:
        raise ValueError(
            f"{path}: holds {PLACEHOLDER} {text.count(PLACEHOLDER)} times; it must stand there once"
        )
    if text.lstrip().startswith("{") and not text.lstrip().startswith(PLACEHOLDER):
        raise ValueError(f"{path}: begins with '{{'; Claude Code would take the text for JSON and refuse it")
    return text


def bullets_of(document: Any) -> list[Bullet]:
    """The bullets of a parsed playbook.json. Raises ValueError for what is no playbook.

    Entries that are no bullets are passed over: the hook shows what it can, the import complains.
    """
    sections = document.get("sections") if isinstance(document, dict) else None
    if not isinstance(sections, dict):
        raise ValueError('no playbook: it has no "sections" object')
    found: dict[str, Bullet] = {}
    for title, entries in sections.items():
        for entry in entries if isinstance(entries, list) else ():
            if (
                not isinstance(entry, dict)
                or not is_name(entry.get("name"))
                or not isinstance(entry.get("text"), str)
            ):
                continue
            helpful, harmful = (_count(entry.get(key)) for key in ("helpful", "harmful"))
            found[entry["name"]] = Bullet(entry["name"], section_slug(title), entry["text"], helpful, harmful)
    return list(found.values())


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 10**9 else 0


def render(bullets: Iterable[Bullet], template: str) -> Injection:
    """Fill the template with the best bullets that fit, grouped by section, the best bullet's section first.

    The section titles stay because advice reads the other way round under MISTAKES TO AVOID.
    Raises ValueError where the template alone leaves no room for any bullet.
    """
    ranked = sorted(bullets, key=best_first)
    if not ranked:
        return Injection("", "", 0, 0)
    room = (
        LIMIT
        - len(_as_json(""))
        - 1
        - _cost(template.replace(PLACEHOLDER, ""))
        - _cost(_left_out(len(ranked)))
    )
    sections: dict[str, list[str]] = {}
    for bullet in ranked:
        line = _plain(bullet.line)
        heading = (
            "" if bullet.section in sections else f"\n## {SECTIONS.get(bullet.section, bullet.section)}\n"
        )
        cost = _cost(f"{heading}{line}\n")
        if cost <= room:
            room -= cost
            sections.setdefault(bullet.section, []).append(line)
    shown = sum(map(len, sections.values()))
    if not shown:
        raise ValueError(
            f"the playbook template leaves no room for a bullet within {LIMIT} characters: shorten it"
        )
    blocks = [
        f"## {SECTIONS.get(section, section)}\n" + "\n".join(lines) for section, lines in sections.items()
    ]
    points = "\n\n".join(blocks) + _left_out(len(ranked) - shown)
    text = template.replace(PLACEHOLDER, points).rstrip("\n") + "\n"
    return Injection(text, _as_json(text) + "\n", shown, len(ranked) - shown)


def _left_out(count: int) -> str:
    if not count:
        return ""
    points = "1 more key point was" if count == 1 else f"{count} more key points were"
    return f"\n\n({points} left out here for length; .claude/playbook.json holds them all.)"


def _plain(line: str) -> str:
    """A bullet's line without what steers a terminal, breaks UTF-8 or poses as the client's own markup."""
    return _REMINDER.sub("&lt;", _CONTROL.sub(" ", line))


def _as_json(text: str) -> str:
    answer = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": text}}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _cost(text: str) -> int:
    """Characters of `text` in the JSON form, which is never the shorter one."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-16-le", "surrogatepass")) // 2 - 2


def write_injection(project: str | os.PathLike[str]) -> bytes:
    """Render the project's playbook.json to where the hook looks for it; returns the bytes of injection.txt.

    Raises OSError where there is no readable playbook.json, ValueError where it or the template is none.
    A state folder that cannot be written is no error: the text is rendered again at the next start.
    """
    folder = os.fspath(project)
    path = Path(folder) / ".claude" / "playbook.json"
    with path.open("rb") as file:
        stamp = fast.injection_stamp(folder, os.fstat(file.fileno()))
        raw = file.read(MAX_PLAYBOOK + 1)
    if len(raw) > MAX_PLAYBOOK:
        raise ValueError(f"{path}: more than {MAX_PLAYBOOK} bytes")
    try:
        bullets = bullets_of(json.loads(raw))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    rendered = render(bullets, template(Path(folder))) if bullets else Injection("", "", 0, 0)
    content = stamp + b"\n" + (rendered.json or "\n").encode() + rendered.text.encode()
    try:
        fast.write_durably(fast.open_state(folder), content, "injection.txt")
    except (OSError, ValueError) as error:
        fast.complain(f"rendered playbook not kept, the next start renders it again: {error}")
    return content
