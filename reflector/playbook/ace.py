"""Converts playbooks of ACE and of similar tools into the format of our playbook.json.

These formats are known: `bullets` or `skills` as an object by id or as a list, with the section in
each of them; `sections` whose values are objects with their `bullets`, or lists; a list of such
sections, or only of bullets; and any of them inside `playbook`. A bullet's text is its `content`,
and its counters are `helpful` or `helpful_count`, also in `metadata`. A deprecated bullet is
omitted, with a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .shape import LISTS, is_playbook_inside

_DEPRECATED = frozenset(
    {"deprecated", "invalid", "archived", "removed", "inactive", "retired", "tombstone"}
)
#: Keys of other tools for the title of a section.
_TITLES = ("title", "name", "section", "id")


def in_our_form(document: Any, notes: list[str]) -> Any:
    """Return a parsed file with its bullets in lists by section title. A file in none of these
    forms is returned unchanged. Each omitted bullet gets a note in `notes`.
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
            notes.append(
                f"{title}: reflector omitted {deprecated}, because the file marks {deprecated} as "
                "deprecated"
            )
            continue
        sections[title].append(_in_our_words(entry))
    rest = {key: value for key, value in document.items() if key not in ("bullets", "skills")}
    return {**rest, "sections": sections} if sections or _of_ace(document) else document


def _of_ace(document: Mapping[str, Any]) -> bool:
    return any(isinstance(document.get(key), list | dict) for key in ("bullets", "skills"))


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each bullet with the title of its section, for a document that is not in our form."""
    for key in ("bullets", "skills"):
        bullets = document.get(key)
        if isinstance(bullets, list | dict):
            for entry in bullets.values() if isinstance(bullets, dict) else bullets:
                section = entry.get("section") if isinstance(entry, dict) else None
                yield str(section or "OTHERS"), entry
            return
    sections = document.get("sections")
    if isinstance(sections, list):
        for section in filter(_is_object, sections):
            title = _title(section)
            yield from ((title, entry) for entry in _listed(section))
    elif isinstance(sections, dict) and any(map(_is_foreign, sections.values())):
        for title, section in sections.items():
            yield from ((title, entry) for entry in _entries_of(section))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _title(section: Mapping[str, Any]) -> str:
    titles = (section.get(key) for key in _TITLES)
    return next((title for title in titles if isinstance(title, str)), "OTHERS")


def _entries_of(section: Any) -> list[Any]:
    if isinstance(section, dict):
        return _listed(section)
    return section if isinstance(section, list) else [section]


def _is_foreign(section: Any) -> bool:
    """Return whether a section is an object, or a list with bullets that have `content`."""
    if isinstance(section, dict):
        return True
    if not isinstance(section, list):
        return False
    return any("content" in entry for entry in filter(_is_object, section))


def _listed(section: Mapping[str, Any]) -> list[Any]:
    """Return the bullets of a section that is an object: those in one of `LISTS`, those by their
    ids, or the section itself if it is one bullet.
    """
    values = (section.get(key) for key in LISTS)
    bullets = next((value for value in values if isinstance(value, list | dict)), section)
    if bullets is section and not all(map(_is_object, section.values())):
        return [section]
    return [*bullets.values()] if isinstance(bullets, dict) else [*bullets]


def _deprecated(entry: Any) -> str | None:
    """Return the id or the text of an entry that is no longer in use; None for any other entry."""
    if not isinstance(entry, dict):
        return None
    status = str(entry.get("status", "")).lower()
    if entry.get("deprecated") is True or entry.get("active") is False or status in _DEPRECATED:
        return repr(str(entry.get("id") or entry.get("content") or "an entry")[:60])
    return None


def _in_our_words(entry: Any) -> Any:
    """Return an entry with the keys of our bullets. A counter of the entry itself has precedence
    over one in `metadata`.
    """
    if not isinstance(entry, dict) or "content" not in entry or "text" in entry:
        return entry
    bullet: dict[str, Any] = {"text": entry["content"]}
    metadata = entry.get("metadata")
    places = [entry, metadata] if isinstance(metadata, dict) else [entry]
    for key in ("helpful", "harmful"):
        for place in places:
            count = place.get(key) if key in place else place.get(f"{key}_count")
            if count is not None:
                bullet[key] = count
                break
    return bullet
