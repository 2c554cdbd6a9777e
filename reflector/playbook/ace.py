"""Playbooks of ACE and of tools made after it, brought into the form that a playbook.json has here.

Each of these is known: `bullets` or `skills` as an object by id or as a list, with the section in
each of them; `sections` whose values are objects with their `bullets`, or lists; a list of such
sections, or of bullets alone; and any of them inside of `playbook`. A bullet's text is its
`content`, and its counters are `helpful` or `helpful_count`, also in `metadata`. A deprecated one
is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .shape import LISTS, is_playbook_inside

_DEPRECATED: Final = frozenset(
    {"deprecated", "invalid", "archived", "removed", "inactive", "retired", "tombstone"}
)
#: Words of other tools for the title of a section.
_TITLES: Final = ("title", "name", "section", "id")


def in_our_form(document: Any, notes: list[str]) -> Any:
    """Return a parsed file with its bullets in lists by the titles of their sections, where it has
    one of these forms; any other file as it is. What is left out goes to `notes`.
    """
    if isinstance(document, list):
        document = {"bullets": document}
    if not isinstance(document, dict):
        return document
    if is_playbook_inside(document):
        document = document["playbook"]
    sections: dict[str, Any] = {}
    for title, entry in _entries(document):
        if title not in sections:
            sections[title] = []
        if (deprecated := _deprecated(entry)) is not None:
            notes.append(f"{title}: {deprecated} is deprecated and is left out")
            continue
        sections[title].append(_in_our_words(entry))
    rest = {key: value for key, value in document.items() if key not in ("bullets", "skills")}
    return {**rest, "sections": sections} if sections or _of_ace(document) else document


def _of_ace(document: Mapping[str, Any]) -> bool:
    return any(isinstance(document.get(key), list | dict) for key in ("bullets", "skills"))


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the bullets of a document that is not in our form already, each with the title of
    its section.
    """
    for key in ("bullets", "skills"):
        held = document.get(key)
        if isinstance(held, list | dict):
            for entry in held.values() if isinstance(held, dict) else held:
                section = entry.get("section") if isinstance(entry, dict) else None
                yield str(section or "OTHERS"), entry
            return
    sections = document.get("sections")
    if isinstance(sections, list):
        for section in sections:
            if isinstance(section, dict):
                named = (section[key] for key in _TITLES if isinstance(section.get(key), str))
                title = next(named, "OTHERS")
                yield from ((title, entry) for entry in _listed(section))
    elif isinstance(sections, dict) and any(map(_is_foreign, sections.values())):
        for title, section in sections.items():
            entries = _listed(section) if isinstance(section, dict) else section
            yield from (
                (title, entry) for entry in (entries if isinstance(entries, list) else [entries])
            )


def _is_foreign(section: Any) -> bool:
    """Return whether a section is an object, or a list with bullets in other words than ours."""
    if isinstance(section, dict):
        return True
    return isinstance(section, list) and any(
        isinstance(one, dict) and "content" in one for one in section
    )


def _listed(section: Mapping[str, Any]) -> list[Any]:
    held = next(
        (section[key] for key in LISTS if isinstance(section.get(key), list | dict)), section
    )
    if held is section and not all(isinstance(entry, dict) for entry in section.values()):
        return [section]
    return [*held.values()] if isinstance(held, dict) else [*held]


def _deprecated(entry: Any) -> str | None:
    """Return how an entry that is not in use any more is called; None for any other."""
    if not isinstance(entry, dict):
        return None
    status = str(entry.get("status", "")).lower()
    if entry.get("deprecated") is True or entry.get("active") is False or status in _DEPRECATED:
        return repr(str(entry.get("id") or entry.get("content") or "an entry")[:60])
    return None


def _in_our_words(entry: Any) -> Any:
    """Return an entry with the keys that a bullet has here. A counter that is given twice is
    that of the bullet.
    """
    if not isinstance(entry, dict) or "content" not in entry or "text" in entry:
        return entry
    kept: dict[str, Any] = {"text": entry["content"]}
    inside = entry.get("metadata")
    for key in ("helpful", "harmful"):
        for place in (entry, inside if isinstance(inside, dict) else {}):
            counted = next((place[name] for name in (key, f"{key}_count") if name in place), None)
            if counted is not None:
                kept[key] = counted
                break
    return kept
