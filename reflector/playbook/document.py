"""playbook.json in and out.

Invariant: `load(dump(bullets, …)).bullets == bullets`, and nothing that `load` could not read passes in
silence: each such thing is a `Problem` that names the entry, the value and the way out. A file that gave
problems is never a reason to write another in its place.

The form (version "1.0") is a documented contract, shared with the tool that first wrote such files:

    {"version": "1.0", "last_updated": ISO time or null, "sections": {title: [{"name", "text", "helpful",
    "harmful"}]}}

A file that is shared through git has neither "last_updated" nor counters, and its bullets in the order of their names.

Indented by two, not escaped to ASCII, all five sections present in canonical order, a newline at the end
(as editors and git like it), bullets of a section in the order given: the order of their creation.

Texts are kept to the letter, line breaks included. Control, escape and bidirectional characters are
refused, not cleaned: texts are shown in terminals and prompts, and a cleaned text would differ from the
file that its owner sees. So are Unicode's invisible "tag" characters, which only ever hide instructions.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .bullet import Bullet
from .names import SECTIONS, SLUG_OF_TITLE, by_number, is_below, is_name, next_name, section_slug

VERSION: Final = "1.0"
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_TEXT: Final = 10_000
MAX_COUNT: Final = 10**9 - 1

Format = Literal["sections", "key_points", "unreadable"]

_REBUILD = "correct it there, or write the file anew from the ledger with `reflector rebuild`"
_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_ENTRY_KEYS = frozenset({"name", "text", "helpful", "harmful"})

_show = reprlib.Repr()
_show.maxstring = _show.maxother = _show.maxlong = 60
_show.maxdict = _show.maxlist = 3
_show.maxlevel = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that could not be read: where it stands, what is wrong, its value, and the way out."""

    where: str
    what: str
    value: str
    way_out: str

    def __str__(self) -> str:
        shown = f" ({self.value})" if self.value else ""
        return f"{self.where}: {self.what}{shown}; {self.way_out}"


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
    """

    format: Format
    bullets: tuple[Bullet, ...] = ()
    last_updated: str | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    named_here: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()


def dump(bullets: Iterable[Bullet], last_updated: str | None) -> bytes:
    """The file's bytes for live bullets. Raises KeyError for a bullet whose section is none of the five."""
    entries = [
        (b.section, {"name": b.name, "text": b.text, "helpful": b.helpful, "harmful": b.harmful}) for b in bullets
    ]
    return _dumped({"version": VERSION, "last_updated": last_updated}, entries)


def dump_shared(bullets: Iterable[Bullet]) -> bytes:
    """The bytes of a file that several ledgers share: what their bullets say, without anything that each counts.

    Bullets stand in the order of their names, so the same advice gives the same bytes whoever learned what first.
    """
    ordered = sorted(bullets, key=lambda b: by_number(b.name))
    return _dumped({"version": VERSION}, [(b.section, {"name": b.name, "text": b.text}) for b in ordered])


def entry_text(bullet: Bullet) -> str:
    """How a bullet begins in every file that was dumped: its name and its text."""
    whole = dump_shared([bullet]).decode()
    start = whole.index('"name": ')
    return whole[start : whole.index("\n      }", start)]


def _dumped(head: dict[str, Any], entries: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    sections: dict[str, list[dict[str, Any]]] = {slug: [] for slug in SECTIONS}
    for section, entry in entries:
        sections[section].append(entry)
    document = {**head, "sections": {SECTIONS[slug]: entries for slug, entries in sections.items()}}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def text_fault(text: object) -> str | None:
    """Why `text` cannot be a bullet's text, None where it can. The same rule for files, people and models."""
    if not isinstance(text, str):
        return "the text is no string"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT:
        return f"the text has {len(text):,} characters, more than {MAX_TEXT:,}"
    if refused := _REFUSED.search(text):
        return f"the text holds the character U+{ord(refused[0]):04X} at {refused.start()}"
    return None


def load(raw: bytes | str, taken: Iterable[str] = (), first: int = 0) -> Loaded:
    """Read a playbook file of any known shape; never raises for its content.

    `taken` are names that entries without one must not get, besides those in the file: all that the
    ledger has ever given out, so that no removed bullet's history is inherited. `first` is the lowest
    number that a name may have here: an entry with a lower one is read as one without a name.
    """
    reading = _Reading(set(taken), first)
    document = reading.parse(raw)
    if document is None:
        return Loaded("unreadable", problems=tuple(reading.problems))
    if "sections" in document:
        shape: Format = "sections"
        reading.sections(document["sections"])
        if "key_points" in document:
            reading.notes.append("key_points beside sections are left aside")
    elif "key_points" in document:
        shape = "key_points"
        reading.key_points(document["key_points"])
    else:
        keys = ", ".join(sorted(_show.repr(key) for key in list(document)[:8])) or "no keys"
        reading.problem("the file", "has neither sections nor key_points", keys, f"it is no playbook; {_REBUILD}")
        return Loaded("unreadable", problems=tuple(reading.problems))
    if (version := document.get("version", VERSION)) != VERSION:
        reading.notes.append(f"version {_show.repr(version)} was read as {VERSION}")
    updated = document.get("last_updated")
    if updated is not None and not (isinstance(updated, str) and len(updated) <= 64 and updated.isprintable()):
        reading.notes.append(f"last_updated {_show.repr(updated)} is no time")
        updated = None
    order = list(SECTIONS)
    bullets = tuple(sorted(reading.bullets(), key=lambda b: order.index(b.section)))
    return Loaded(
        shape,
        bullets,
        updated,
        tuple(reading.problems),
        tuple(reading.notes),
        frozenset(reading.named_here),
        frozenset(reading.uncounted),
    )


class _Duplicates(dict[str, Any]):
    """A JSON object that had keys twice: the last value of each is kept, as everywhere, the keys are noted."""

    twice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _NoNumber:
    """NaN, Infinity, and integers so long that converting them would cost more than they can mean."""

    literal: str

    def __repr__(self) -> str:
        return self.literal


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    marked = _Duplicates(found)
    marked.twice = tuple(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
    return marked


def _integer(literal: str) -> int | _NoNumber:
    return int(literal) if len(literal) <= 20 else _NoNumber(literal)


def _is_title(title: str) -> bool:
    return title.strip().upper() in SLUG_OF_TITLE or title.strip().lower() in SECTIONS


@dataclass(slots=True)
class _Entry:
    where: str
    slug: str
    name: str | None
    text: str
    counters: tuple[int, int] | None


@dataclass(slots=True)
class _Reading:
    taken: set[str]
    first: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)
    named_here: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    unnamed_are_kpt: bool = False

    def problem(self, where: str, what: str, value: str, way_out: str) -> None:
        self.problems.append(Problem(where, what, value, way_out))

    def parse(self, raw: bytes | str) -> dict[str, Any] | None:
        """The file's JSON object, or None with a problem that says where reading stopped."""
        if len(raw) > MAX_BYTES:
            self.problem("the file", "is too large", f"{len(raw):,} bytes", f"a playbook has at most {MAX_BYTES:,}")
            return None
        if isinstance(raw, bytes):
            if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
                self.problem("the file", "is UTF-16", "", "save it as UTF-8")
                return None
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                line = raw.count(b"\n", 0, error.start) + 1
                byte = f"byte 0x{raw[error.start]:02x} at {error.start}"
                self.problem(f"line {line}", "is not UTF-8", byte, f"save the file as UTF-8, or {_REBUILD}")
                return None
        else:
            text = raw
        text = text.removeprefix("\ufeff")
        if not text.strip():
            self.problem("the file", "is empty", "", _REBUILD)
            return None
        try:
            document = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_NoNumber)
        except json.JSONDecodeError as error:
            near = text[max(error.pos - error.colno + 1, error.pos - 40) : error.pos + 20].split("\n")[0]
            cut_off = error.msg.startswith("Unterminated") or not text[error.pos : error.pos + 1000].strip()
            at_end = " (the file ends there: it was cut off)" if cut_off else ""
            self.problem(
                f"line {error.lineno}, column {error.colno}",
                f"is not JSON: {error.msg}{at_end}",
                _show.repr(near),
                _REBUILD,
            )
            return None
        except RecursionError:
            self.problem("the file", "is nested too deeply to be a playbook", "", _REBUILD)
            return None
        if not isinstance(document, dict):
            self.problem("the file", "holds no JSON object", _show.repr(document), f"it is no playbook; {_REBUILD}")
            return None
        self.duplicates("the file", document)
        return document

    def duplicates(self, where: str, value: dict[str, Any]) -> None:
        for key in value.twice if isinstance(value, _Duplicates) else ():
            self.problem(where, "holds a key twice", _show.repr(key), "keep one of the two")

    def sections(self, sections: object) -> None:
        """Titles in any case; what stands under an unknown title goes to OTHERS."""
        if not isinstance(sections, dict):
            self.problem("sections", "is no object", _show.repr(sections), 'write {"OTHERS": []} at least')
            return
        self.duplicates("sections", sections)
        for title, entries in sections.items():
            shown = f"sections[{_show.repr(title)}]"
            slug = section_slug(title)
            if not isinstance(entries, list):
                self.problem(shown, "is no list", _show.repr(entries), "write [] for a section without bullets")
                continue
            if slug == "oth" and entries and not _is_title(title):
                self.notes.append(f"{shown} is no section; its {len(entries)} bullets go to OTHERS")
            for index, entry in enumerate(entries):
                self.entry(f"{shown}[{index}]", slug, entry)

    def key_points(self, points: object) -> None:
        """The flat list of earlier versions: bare texts, or objects with or without counters or a score."""
        if not isinstance(points, list):
            self.problem("key_points", "is no list", _show.repr(points), "write [] for none")
            return
        self.unnamed_are_kpt = True
        for index, entry in enumerate(points):
            self.entry(f"key_points[{index}]", "oth", entry)

    def entry(self, where: str, slug: str, entry: object) -> None:
        if isinstance(entry, str):
            entry = {"text": entry}
        if not isinstance(entry, dict):
            self.problem(
                where,
                "is no bullet",
                _show.repr(entry),
                'write {"name", "text", "helpful", "harmful"}, or the text alone',
            )
            return
        name = entry.get("name")
        if name is not None:
            where = f"{where} {_show.repr(name)}"
        self.duplicates(where, entry)
        before = len(self.problems)
        if name is not None and not is_name(name):
            self.problem(
                where,
                "the name has no known form",
                _show.repr(name),
                "name it like pat-001, mis-001, pref-001, ctx-001, oth-001 or kpt_001, or leave it out to get one",
            )
        text = entry.get("text")
        if (fault := text_fault(text)) is not None:
            shown = _show.repr(text) if "text" in entry else "there is none"
            self.problem(where, fault, shown, "correct the text, or remove the entry")
        counters = self.counters(where, entry)
        unknown = sorted(_show.repr(key) for key in entry if key not in _ENTRY_KEYS and key != "score")
        if unknown:
            self.notes.append(f"{where}: {', '.join(unknown[:5])} is not part of the form and is not kept")
        if isinstance(name, str) and is_name(name) and is_below(name, self.first):
            self.notes.append(f"{where}: names here have numbers from {self.first} up; it is given a new one")
            name = None
        if len(self.problems) == before and isinstance(text, str):
            self.entries.append(_Entry(where, slug, name, text, counters))
        elif is_name(name) and isinstance(name, str):
            self.taken.add(name)  # an entry that cannot be read still owns its name

    def counters(self, where: str, entry: dict[str, Any]) -> tuple[int, int] | None:
        if not entry.keys() & {"helpful", "harmful", "score"}:
            return None
        if "score" in entry and not entry.keys() & {"helpful", "harmful"}:
            # The oldest form had one number: its sign said which counter it was.
            score = self.count(where, entry, "score", low=-MAX_COUNT)
            return max(score, 0), max(-score, 0)
        return self.count(where, entry, "helpful"), self.count(where, entry, "harmful")

    def count(self, where: str, entry: dict[str, Any], key: str, low: int = 0) -> int:
        value = entry.get(key, 0)
        if type(value) is int and low <= value <= MAX_COUNT:
            return value
        if type(value) is int and value < low:
            what = "is negative" if low == 0 else "is too small"
        elif type(value) is int or (isinstance(value, _NoNumber) and value.literal.isdigit()):
            what = f"is above {MAX_COUNT:,}"
        else:
            what = "is no whole number"
        self.problem(where, f"{key} {what}", _show.repr(value), f"write {key} as a whole number, 0 or more")
        return 0

    def bullets(self) -> list[Bullet]:
        """The entries under names that no other entry has; the first of two keeps the name."""
        owners: dict[str, _Entry] = {}
        for entry in self.entries:
            if entry.name is not None and (owner := owners.setdefault(entry.name, entry)) is not entry:
                self.problem(
                    entry.where,
                    "the name is there already",
                    f"at {owner.where.rsplit(' ', 1)[0]}",
                    "remove one of the two, or leave its name out to get a new one",
                )
        taken = self.taken | owners.keys()
        latest: dict[str, str] = {}
        found = []
        for entry in self.entries:
            name = entry.name
            if name is None:
                slug = "kpt" if self.unnamed_are_kpt else entry.slug
                name = latest[slug] = next_name(slug, (latest[slug],) if slug in latest else taken, self.first)
                self.named_here.add(name)
            elif owners[name] is not entry:
                continue
            if entry.counters is None:
                self.uncounted.add(name)
            found.append(Bullet(name, entry.slug, entry.text, *(entry.counters or (0, 0))))
        return found
