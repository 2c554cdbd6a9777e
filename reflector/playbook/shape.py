"""Whether a parsed playbook.json is a playbook, because other tools use the same file name for
other data.

The hook loads this module before a ledger exists, so it imports nothing.
"""

#: The keys that hold the bullets of a playbook: ours, its earlier form, and those of ACE.
KEYS = ("sections", "key_points", "bullets", "skills")
#: A key that a piece of advice has in one of these forms.
_OF_A_BULLET = frozenset({"text", "content", "name"})
#: The keys that hold the bullets of one section, if the section is an object.
LISTS = ("bullets", "skills", "items")


def is_playbook(document: object) -> bool:
    """Return whether a JSON value has the shape of a playbook, even if it has faults."""
    if isinstance(document, list):
        return bool(document) and _has_bullets(document)
    if not isinstance(document, dict):
        return False
    if is_playbook_inside(document) or _says_so(document):
        return True
    return any(key in document and _holds(document[key]) for key in KEYS)


def _says_so(document: dict[str, object]) -> bool:
    """Return whether an object has the version and the sections of our files, whatever is in the
    sections.
    """
    return document.get("version") == "1.0" and isinstance(document.get("sections"), dict)


def is_playbook_inside(document: dict[str, object]) -> bool:
    """Return whether an object only wraps a playbook."""
    inside = document.get("playbook")
    return (
        isinstance(inside, dict)
        and not any(key in document for key in KEYS)
        and is_playbook(inside)
    )


def may_be_playbook(text: str) -> bool:
    """Return whether a text that is not JSON may be a damaged playbook. It may if it contains a key
    of a playbook, or ends before the first key.
    """
    return text.strip() in ("", "{") or any(f'"{key}"' in text for key in (*KEYS, "version"))


def _holds(value: object) -> bool:
    """Return whether the value of one of `KEYS` is bullets or sections with bullets; it may be
    empty.
    """
    if not value:
        return isinstance(value, list | dict)
    if isinstance(value, dict):
        return _is_bullet(value) or any(map(_holds_section, value.values()))
    if not isinstance(value, list):
        return False
    return _has_bullets(value) or any(map(_holds_section, value))


def _holds_section(section: object) -> bool:
    """Return whether a value has the form of a section: a list of bullets, bullets by their ids,
    one bullet, or an object with one of `LISTS`.
    """
    if isinstance(section, list):
        return not section or _has_bullets(section)
    if not isinstance(section, dict):
        return False
    if section and all(map(_is_bullet, section.values())):
        return True  # bullets by their ids
    if _is_bullet(section):
        return True
    return any(isinstance(section.get(key), list | dict) for key in LISTS)


def _has_bullets(entries: list[object]) -> bool:
    return any(isinstance(entry, str) or _is_bullet(entry) for entry in entries)


def _is_bullet(entry: object) -> bool:
    return isinstance(entry, dict) and not _OF_A_BULLET.isdisjoint(entry)
