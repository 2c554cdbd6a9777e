"""A playbook as a text for an editor: what the text says when it is closed is what the playbook is to say.

Invariant: `parse(render(bullets, …), …).bullets == bullets`. A line is a bullet: its name in brackets and its text, or
a text alone for a new one. An indented line goes on with the bullet above. A line that begins with # is left out, but
one with ## begins a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .bullet import Bullet
from .names import SECTIONS, is_name, section_slug

_BULLET = re.compile(r"\[([^\[\]\s]+)\](?:\s+(.*))?")
_POSITION = re.compile(r"# As of position (\d+)\b", re.ASCII)
_INDENT = "    "
_HELP = """\
# What this text says when you close it is what the playbook says. A line is a
# bullet: change its text, put it under another heading, or delete it. A line
# without a name is a new bullet. An indented line belongs to the one above.
# Lines that begin with # are left out. Without any bullet nothing changes.
"""


class Slip(ValueError):
    """A line that cannot be read; the text names it and says what to do."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says. `new` are the made-up names of bullets without one; `position` is what it was made from."""

    bullets: tuple[Bullet, ...]
    new: frozenset[str]
    position: int | None


@dataclass(slots=True)
class _Entry:
    name: str | None
    section: str
    lines: list[str] = field(default_factory=list)
    blank: int = 0


def render(
    bullets: Iterable[Bullet],
    position: int,
    section: str | None = None,
    *,
    new: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """Return the text for an editor: all sections, or one. `new` are bullets to be shown without a name, and `notes`
    stand above the bullets of these names."""
    by_section: dict[str, list[str]] = {slug: [] for slug in SECTIONS if section in (None, slug)}
    for bullet in bullets:
        said = bullet.text if bullet.name in new else f"[{bullet.name}] {bullet.text}"
        first, *others = said.split("\n")
        lines = [f"# {line}".rstrip() for line in (notes or {}).get(bullet.name, "").splitlines()]
        lines += [first, *(f"{_INDENT}{line}" if line else "" for line in others)]
        by_section.setdefault(bullet.section, []).append("\n".join(lines))
    parts = ["\n".join([f"## {SECTIONS[slug]}", *lines]) for slug, lines in by_section.items()]
    return f"{_HELP}#\n# As of position {position}.\n\n" + "\n\n".join(parts) + "\n"


def parse(text: str, known: Mapping[str, Bullet], section: str | None = None) -> Parsed:
    """Read a text that was edited.

    known    the bullets that it was made from, by name
    section  the section of bullets above the first heading
    Raises Slip.
    """
    entries: list[_Entry] = []
    here = section
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip():
            if entries:
                entries[-1].blank += 1
        elif line.startswith("##"):
            here = _heading(line, number)
        elif line.startswith("#"):
            continue
        elif line[0] in " \t":
            _go_on(entries, line, number)
        else:
            if here is None:
                raise Slip(
                    f"line {number}: a bullet stands above the first heading; put it below one, such as ## OTHERS"
                )
            _begin(entries, line, here, number, known)
    bullets = [_bullet(entry, number, known) for number, entry in enumerate(entries)]
    for number, bullet in enumerate(bullets):
        if any(other.name == bullet.name for other in bullets[:number]):
            raise Slip(f"{bullet.name} stands there twice; remove one of the two, or leave its name out")
    found = _POSITION.search(text)
    new = frozenset(bullet.name for bullet, entry in zip(bullets, entries, strict=True) if entry.name is None)
    return Parsed(tuple(bullets), new, int(found[1]) if found else None)


def _heading(line: str, number: int) -> str:
    title = line.lstrip("#").strip()
    slug = section_slug(title)
    if slug == "oth" and title.casefold() not in ("oth", SECTIONS["oth"].casefold()):
        raise Slip(f"line {number}: {title!r} is not a section; the sections are {', '.join(SECTIONS.values())}")
    return slug


def _go_on(entries: list[_Entry], line: str, number: int) -> None:
    if not entries:
        raise Slip(f"line {number}: an indented line continues the bullet above it, and there is no bullet above")
    entry = entries[-1]
    entry.lines += [""] * entry.blank
    entry.blank = 0
    entry.lines.append(line.removeprefix(_INDENT) if line.startswith(_INDENT) else line.lstrip())


def _begin(entries: list[_Entry], line: str, section: str, number: int, known: Mapping[str, Bullet]) -> None:
    found = _BULLET.fullmatch(line.rstrip())
    if found is None or not (is_name(found[1]) or found[1] in known):
        if entries and not entries[-1].blank and _is_wrapped(entries[-1], line, known):
            entries[-1].lines[-1] += f" {line.strip()}"
            return
        entries.append(_Entry(None, section, [line.strip().removeprefix("- ").lstrip()]))
        return
    name = found[1]
    if name not in known:
        raise Slip(
            f"line {number}: {name} is not in the text that you were given; leave the name out to add a bullet, or "
            f"bring a removed one back with `reflector restore {name}`"
        )
    entries.append(_Entry(name, section, [found[2] or ""]))


def _is_wrapped(entry: _Entry, line: str, known: Mapping[str, Bullet]) -> bool:
    """Return whether an editor broke the line of a bullet in two."""
    said = known[entry.name].text if entry.name is not None else ""
    return said.startswith(" ".join(["\n".join(entry.lines), line.strip()]))


def _bullet(entry: _Entry, number: int, known: Mapping[str, Bullet]) -> Bullet:
    text = "\n".join(entry.lines).rstrip()
    was = known.get(entry.name or "")
    if was is not None and _plain(was.text) == _plain(text):
        text = was.text
    # No bullet is called so: names have no plus.
    name = entry.name or f"+{number}"
    return Bullet(name, entry.section, text, was.helpful if was else 0, was.harmful if was else 0)


def _plain(text: str) -> list[str]:
    """What of a text an editor does not lose: its lines without the white space around."""
    return [line.rstrip() for line in text.replace("\r\n", "\n").strip().split("\n")]
