"""A marked section in somebody's Markdown file, which holds the playbook; the rest of the file is theirs.

Invariant: nothing outside the marks is changed, not a byte, and taking the section out gives the file as it was before.
The first mark holds the digest of what was written, so a section that somebody edited is known as such. A mark begins
its line, which no bullet does, so what a bullet says ends no section and begins none.

The section has no counters: it changes when advice does, not with each session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from .names import SECTIONS, by_number

if TYPE_CHECKING:
    from .bullet import Bullet

_BEGIN: Final = re.compile(rb"(?m)^<!-- reflector:begin ([0-9a-f]{12})\+([0-9])[^>\r\n]*-->(\r?\n)")
_END: Final = b"<!-- reflector:end -->"
_SAYS: Final = "The next lines are the playbook, kept by reflector. Edit them here or there."


class Marked(NamedTuple):
    """A file with a marked section.

    before, after  bytes of the file's owner
    body           what the section says, its lines ended by newlines alone
    digest         of the section as it was written
    newline, end   how lines end, and what ends the last mark's
    """

    before: bytes
    after: bytes
    body: str
    digest: str
    newline: bytes
    end: bytes

    @property
    def is_edited(self) -> bool:
        """Whether the section differs from what was written."""
        return digest(self.body) != self.digest


def find(raw: bytes) -> Marked | None:
    """Return the marked section of a file, None where there is none.

    Raises ValueError where its end is missing or a second one follows.
    """
    begin = _BEGIN.search(raw)
    if begin is None:
        return None
    end = raw.find(b"\n" + _END, begin.end() - 1) + 1
    if not end:
        raise ValueError(f"{_line(raw, begin)}: the mark {_END.decode()} is missing behind it")
    if again := _BEGIN.search(raw, begin.end()):
        raise ValueError(f"{_line(raw, again)}: a second playbook begins; remove one of the two")
    lead = len(begin[3]) * int(begin[2])
    body = raw[begin.end() : end].decode("utf-8", "replace").replace("\r\n", "\n")
    tail = raw[end + len(_END) :]
    after = tail.removeprefix(begin[3])
    return Marked(raw[: begin.start() - lead], after, body, begin[1].decode(), begin[3], tail[: len(tail) - len(after)])


def with_section(raw: bytes, bullets: Iterable[Bullet]) -> bytes:
    """Return a file with the section written, in its place or at the end. Raises ValueError as `find` does."""
    there = find(raw)
    if there is None:
        newline = b"\r\n" if b"\r\n" in raw else b"\n"
        there = Marked(raw, b"", "", "", newline, newline)
    before = there.before.replace(b"\r\n", b"\n")
    # A blank line before the section.
    lead = 0 if not before or before.endswith(b"\n\n") else 1 if before.endswith(b"\n") else 2
    body = section_text(bullets)
    head = f"<!-- reflector:begin {digest(body)}+{lead} {_SAYS} -->\n"
    text = ("\n" * lead + head + body).encode().replace(b"\n", there.newline)
    return there.before + text + _END + there.end + there.after


def without_section(raw: bytes) -> bytes:
    """Return a file as it was before the section was written. Raises ValueError as `find` does."""
    there = find(raw)
    return raw if there is None else there.before + there.after


def section_text(bullets: Iterable[Bullet]) -> str:
    """Return the section between its marks: bullets by section, in the order of their names, each on one line."""
    lines: dict[str, list[str]] = {slug: [] for slug in SECTIONS}
    for bullet in sorted(bullets, key=lambda one: by_number(one.name)):
        lines[bullet.section].append(f"- [{bullet.name}] {one_line(bullet.text)}")
    parts = [f"### {SECTIONS[slug]}\n\n" + "\n".join(found) for slug, found in lines.items() if found]
    intro = "## Playbook\n\nWhen you use one of these bullets, cite it by its name in brackets."
    return "\n\n".join([intro, *parts]) + "\n"


def one_line(text: str) -> str:
    """Return a bullet's text as the section has it."""
    return " ".join(text.split())


def digest(body: str) -> str:
    """Return what a section is known by."""
    return sha256(body.encode()).hexdigest()[:12]


def _line(raw: bytes, found: re.Match[bytes]) -> str:
    return f"line {raw[: found.start()].count(10) + 1}"
