"""The ACE reflector's two functions on a playbook dict, for code that has no ledger.

Invariant: counters only grow, by one for each usable tag, and a tag that is of no use changes nothing and
says so on the logger `reflector` (with no logging set up, on stderr). Neither function raises for what
stands in the playbook or in the tags.

The dict has the form of playbook.json: `{"sections": {title: [{"name", "text", "helpful", "harmful"}]}}`.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Iterator
from typing import Any

from reflector.playbook.bullet import Bullet
from reflector.playbook.names import section_slug
from reflector.playbook.sections import sections_text
from reflector.reflection.prompts import fill, load_template

_log = logging.getLogger("reflector")
# Requirement A-23 has it on stderr: a host that only wants errors of everybody has to say so of this logger too.
if _log.level == logging.NOTSET:
    _log.setLevel(logging.WARNING)


def format_playbook(playbook: dict[str, Any], template: str | None = None) -> str:
    """The playbook as the agent reads it: the template with sections and bullets in place of `{key_points}`.

    Sections stand in canonical order under `## TITLE`, a blank line between them; empty ones are left out, and
    entries under unknown titles stand under OTHERS. Without any bullet the result is "", so that nobody is
    asked to cite what is not there. `template` is that of `load_template("playbook.txt")` unless given.
    """
    sections = sections_text(bullets_of(playbook))
    if not sections:
        return ""
    return fill(load_template("playbook.txt") if template is None else template, {"key_points": sections})


def bullets_of(playbook: dict[str, Any]) -> Iterator[Bullet]:
    """Everything in the playbook that has the form of a bullet; what it lacks is empty or 0."""
    for title, entry in _entries(playbook):
        name, text = str(entry.get("name", "")), str(entry.get("text", ""))
        yield Bullet(name, section_slug(title), text, entry.get("helpful", 0), entry.get("harmful", 0))


def apply_bullet_tags(playbook: dict[str, Any], bullet_tags: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the tags in the playbook itself and return it: helpful and harmful add one, neutral nothing.

    Each tag counts, also the second of the same bullet, and also when the same list is applied again: one
    call is the evaluation of one session. Of two entries with one name the last in the dict is counted.
    """
    entries = {entry["name"]: entry for _, entry in _entries(playbook) if isinstance(entry.get("name"), str)}
    tags: Any = bullet_tags  # from a model, so whatever the signature says, it may be anything
    if not isinstance(tags, list):
        _log.warning("bullet_tags is no list but %s; nothing was counted", reprlib.repr(tags))
        return playbook
    for index, given in enumerate(tags):
        if not isinstance(given, dict):
            _log.warning("tag %d is no object but %s; it was not counted", index, reprlib.repr(given))
            continue
        name, tag = given.get("name"), given.get("tag")
        entry = entries.get(name) if isinstance(name, str) else None
        if entry is None:
            _log.warning("tag %d: no bullet is named %s; it was not counted", index, reprlib.repr(name))
        elif tag in ("helpful", "harmful"):
            count = entry.get(tag, 0)
            if type(count) is int:
                entry[tag] = count + 1
            else:
                _log.warning("%s: %s is no number but %s; the tag was not counted", name, tag, reprlib.repr(count))
        elif tag != "neutral":
            _log.warning(
                "tag %d: %s is called %s, not helpful, harmful or neutral; it was not counted",
                index,
                reprlib.repr(name),
                reprlib.repr(tag),
            )
    return playbook


def _entries(playbook: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Title and entry of everything in the playbook that has the form of a bullet."""
    sections = playbook.get("sections") if isinstance(playbook, dict) else None
    for title, entries in sections.items() if isinstance(sections, dict) else ():
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                yield str(title), entry
