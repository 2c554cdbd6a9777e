"""Names of bullets and their five sections.

Invariant: a name permanently means one bullet. The next name of a section is one above the highest
number that was ever given out, tombstones included, so two histories never share a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reflector.text.lazy import lazy_pattern

#: Section titles by slug, in canonical order (requirements A-29).
SECTIONS: dict[str, str] = {
    "pat": "PATTERNS & APPROACHES",
    "mis": "MISTAKES TO AVOID",
    "pref": "USER PREFERENCES",
    "ctx": "PROJECT CONTEXT",
    "oth": "OTHERS",
}
SLUG_OF_TITLE: dict[str, str] = {title: slug for slug, title in SECTIONS.items()}

#: The numbers of names in the user's own playbook start here. The text at a session's start comes
#: from two playbooks, and a name in it must mean one bullet.
USER_FIRST = 9001
_BEYOND = 10**9

#: Requirements A-03, with ASCII digits only: `\d` alone would match Arabic digits too.
NAME = lazy_pattern(r"(?:pat|mis|pref|ctx|oth)-\d+|kpt_\d+", re.ASCII)


def is_name(value: object) -> bool:
    """Return whether a value of any type is a name, such as `pat-001` or `kpt_7`."""
    return isinstance(value, str) and len(value) <= 64 and NAME.fullmatch(value) is not None


def section_of(title: str) -> str | None:
    """Return the slug for a section's title or slug, in any case; None for any other title."""
    plain = title.strip()
    return plain.lower() if plain.lower() in SECTIONS else SLUG_OF_TITLE.get(plain.upper())


def section_slug(title: str) -> str:
    """Return the slug of a section's title or slug; unknown titles are OTHERS (A-33)."""
    return section_of(title) or "oth"


class Names:
    """All names that were ever given out, and the next ones. The next name is found without a
    search in all others.

    A number that is too high to count up to is ignored, because a bullet of such a name would
    otherwise be the section's last. `first` is the lowest number that a next name may have.
    """

    def __init__(self, ever_used: Iterable[str] = (), first: int = 0) -> None:
        self._used = set[str]()
        self._numbers: dict[str, set[int]] = {}
        self._highest: dict[str, int] = {}
        self._first = first
        for name in ever_used:
            self.add(name)

    def add(self, name: str) -> None:
        """Note a name as given out."""
        self._used.add(name)
        if not is_name(name):
            return
        prefix = name.rstrip("0123456789")
        number = _number(name)
        self._numbers.setdefault(prefix, set()).add(number)
        if number < _BEYOND:
            self._highest[prefix] = max(number, self._highest.get(prefix, 0))

    def give(self, preferred: str | None, slug: str) -> str:
        """Give out the preferred name if it was never given out, else the next one of section
        `slug`.
        """
        if not preferred or preferred in self._used:
            return self.next(slug)
        self.add(preferred)
        return preferred

    def next(self, slug: str) -> str:
        """Give out the next name of section `slug`: `pat-008` after `pat-007`."""
        prefix = "kpt_" if slug == "kpt" else f"{slug}-"
        numbers = self._numbers.get(prefix, set())
        number = max(self._first - 1, self._highest.get(prefix, 0)) + 1
        while number in numbers:  # a very high one, which `_highest` does not contain
            number += 1
        name = f"{prefix}{number:03d}"
        self.add(name)
        self._highest[prefix] = number
        return name


def is_below(name: str, first: int) -> bool:
    """Return whether a name's number is below `first`."""
    return _number(name) < first


def by_number(name: str) -> tuple[str, int, str]:
    """Return the sort key of a name: `pat-002` is before `pat-010`, whichever was added first."""
    return (name.rstrip("0123456789"), _number(name), name)


def _number(name: str) -> int:
    return int(name.replace("_", "-").rpartition("-")[2])
