"""playbook.json in and out.

Invariant: `load(dump(bullets, …)).bullets == bullets`, and nothing that `load` could not read passes in
silence: each such thing is a finding that names the entry, the value and the way out. A file that gave
problems is never a reason to write another in its place.

The form (version "1.0") is a documented contract, shared with the tool that first wrote such files:

    {"version": "1.0", "last_updated": ISO time or null, "sections": {title: [{"name", "text", "helpful",
    "harmful"}]}}

A file that is shared through git has neither "last_updated" nor counters, and its bullets in the order of their names.

Indented by two, not escaped to ASCII, all five sections present in canonical order, a newline at the end
(as editors and git like it), bullets of a section in the order given: the order of their creation.

Playbooks of other systems that keep their advice by its id under `bullets` or `skills`, and lists of these ids under
`sections`, are read with their texts and counters; their ids are not names of ours. Texts are kept to the letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from .names import SECTIONS, by_number
from .parse import MAX_BYTES as MAX_BYTES
from .parse import REBUILD, SHAPES, SHOWN, Parser

if TYPE_CHECKING:
    from reflector.mistakes import Finding

    from .bullet import Bullet

VERSION: Final = "1.0"

Format = Literal["sections", "key_points", "bullets", "skills", "text", "markdown", "unreadable"]
_ELSEWHERE: Final[tuple[Format, ...]] = ("bullets", "skills")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a playbook file holds.

    format        which of the known shapes it has; "unreadable" where it has none
    bullets       what could be read, in canonical order of sections, inside a section as in the file
    last_updated  as written, None where it is missing or no text
    problems      what could not be read; where there are none the file was understood completely
    notes         what was understood but changes when the file is written again
    named_here    names that the file does not hold: `load` gave them to entries without one
    uncounted     names of bullets for which the file holds no counter: it says nothing about their counts
    places        where in the file each bullet stands, by its name: "line 7"
    """

    format: Format
    bullets: tuple[Bullet, ...] = ()
    last_updated: str | None = None
    problems: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    named_here: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict, compare=False)


def dump(bullets: Iterable[Bullet], last_updated: str | None) -> bytes:
    """Return the file's bytes for live bullets. Raises KeyError for a bullet whose section is not one of the five."""
    entries = [
        (b.section, {"name": b.name, "text": b.text, "helpful": b.helpful, "harmful": b.harmful}) for b in bullets
    ]
    return _dumped({"version": VERSION, "last_updated": last_updated}, entries)


def dump_shared(bullets: Iterable[Bullet]) -> bytes:
    """Return the bytes of a file that several ledgers share: what their bullets say, without anything that each counts.

    Bullets are in the order of their names, so the same advice gives the same bytes on every machine.
    """
    ordered = sorted(bullets, key=lambda b: by_number(b.name))
    return _dumped({"version": VERSION}, [(b.section, {"name": b.name, "text": b.text}) for b in ordered])


def dump_skillbook(bullets: Iterable[Bullet]) -> bytes:
    """Return the bullets as other systems keep advice: by id under `skills`, with lists of the ids under `sections`."""
    listed, sections = list(bullets), dict[str, list[str]]()
    for b in listed:
        sections.setdefault(SECTIONS[b.section], []).append(b.name)
    skills = {
        b.name: {"id": b.name, "section": SECTIONS[b.section], "content": b.text}
        | {"helpful": b.helpful, "harmful": b.harmful, "neutral": 0, "status": "active"}
        for b in listed
    }
    document = {"skills": skills, "sections": sections, "next_id": len(skills)}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def entry_text(bullet: Bullet) -> str:
    """Return how a bullet begins in every file that was dumped: its name and its text."""
    whole = dump_shared([bullet]).decode()
    start = whole.index('"name": ')
    return whole[start : whole.index("\n      }", start)]


def _dumped(head: dict[str, Any], entries: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    sections: dict[str, list[dict[str, Any]]] = {slug: [] for slug in SECTIONS}
    for section, entry in entries:
        sections[section].append(entry)
    document = {**head, "sections": {SECTIONS[slug]: entries for slug, entries in sections.items()}}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def load(raw: bytes | str, taken: Iterable[str] = (), first: int = 0, *, foreign: bool = False) -> Loaded:
    """Read a playbook file of any known shape; never raises for its content.

    `taken` are names that entries without one must not get, besides those in the file: all that the
    ledger has ever given out, so that no removed bullet's history is inherited. `first` is the lowest
    number that a name may have here: an entry with a lower one is read as one without a name. A `foreign` file is
    not the project's own, which the ledger could write again.
    """
    parser = Parser(set(taken), first, foreign=foreign)
    document = parser.parse(raw)
    if document is None:
        return Loaded("unreadable", problems=tuple(parser.problems))
    shape = _shape(document)
    if shape in _ELSEWHERE:
        parser.elsewhere(shape, document[shape])
    elif shape == "sections":
        parser.sections(document["sections"])
        for other in ("key_points", *_ELSEWHERE):
            if other in document:
                parser.notes.append(f"{other} beside sections are left aside")
    elif shape == "key_points":
        parser.key_points(document["key_points"])
    else:
        keys = ", ".join(sorted(SHOWN.repr(key) for key in list(document)[:8])) or "no keys"
        way_out = SHAPES if foreign else f"it is not a playbook; {REBUILD}"
        parser.problem("the file", "has neither sections nor key_points", keys, way_out)
        return Loaded("unreadable", problems=tuple(parser.problems))
    if (version := document.get("version", VERSION)) != VERSION:
        parser.notes.append(f"version {SHOWN.repr(version)} was read as {VERSION}")
    updated = document.get("last_updated")
    if updated is not None and not (isinstance(updated, str) and len(updated) <= 64 and updated.isprintable()):
        parser.notes.append(f"last_updated {SHOWN.repr(updated)} is not a time")
        updated = None
    return finished(parser, shape, updated)


def finished(parser: Parser, shape: Format, updated: str | None = None) -> Loaded:
    """Return what was read of a file of a shape."""
    order = list(SECTIONS)
    bullets = tuple(sorted(parser.bullets(), key=lambda b: order.index(b.section)))
    problems, notes = tuple(parser.problems), tuple(parser.notes)
    named_here, uncounted = frozenset(parser.named_here), frozenset(parser.uncounted)
    return Loaded(shape, bullets, updated, problems, notes, named_here, uncounted, parser.places)


def _shape(document: dict[str, Any]) -> Format:
    """Return the key that holds a document's advice. Objects in sections are advice; texts there may be ids."""
    sections = document.get("sections")
    lists = list(sections.values()) if isinstance(sections, dict) else []
    if not any(isinstance(entry, dict) for entries in lists if isinstance(entries, list) for entry in entries):
        for key in _ELSEWHERE:
            if isinstance(document.get(key), dict | list):
                return key
    return "sections" if "sections" in document else "key_points" if "key_points" in document else "unreadable"
