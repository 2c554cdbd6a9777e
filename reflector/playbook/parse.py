"""A playbook file, read entry by entry.

Invariant: nothing is passed over in silence. What cannot be read is a finding that names the entry, the value and the
way out; what is understood and will be written differently is a note.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from reflector.mistakes import Finding

from .admissible import MAX_COUNT, text_fault
from .bullet import Bullet
from .names import SECTIONS, SLUG_OF_TITLE, Names, is_below, is_name, section_slug

MAX_BYTES: Final = 64 * 1024 * 1024

CORRECT = "correct it there"
REBUILD = f"{CORRECT}, or write the file again from the ledger with `reflector rebuild`"
_IMPORT = "correct it there and import the file again"
_FORM = 'write {"name", "text", "helpful", "harmful"}, or the text alone'
_NAMES = "name it like pat-001, mis-001, pref-001, ctx-001, oth-001 or kpt_001, or leave it out to get one"
_TWICE = "remove one of the two, or leave its name out to get a new one"
SHAPES = "bullets are read from `sections`, `key_points`, `bullets` or `skills`; bring it into one of these"
#: One word that ends in a number, such as `shell_usage-00012`, or a UUID: it names advice and gives none.
_IDENTIFIER = re.compile(r"[\w.]+[-_]\d+|[0-9a-fA-F-]{32,36}")
_ENTRY_KEYS = frozenset({"name", "text", "helpful", "harmful"})

SHOWN = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = 60
SHOWN.maxdict = SHOWN.maxlist = 3
SHOWN.maxlevel = 2


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
class Parser:
    taken: set[str]
    first: int = 0
    foreign: bool = False
    problems: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    entries: list[_Entry] = field(default_factory=list)
    named_here: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    places: dict[str, str] = field(default_factory=dict)
    unnamed_are_kpt: bool = False

    def problem(self, where: str, what: str, value: str, way_out: str) -> None:
        self.problems.append(Finding("playbook", where, what, way_out, value))

    @property
    def mend(self) -> str:
        """The way out of a fault of the file as a whole."""
        return _IMPORT if self.foreign else REBUILD

    def decode(self, raw: bytes | str) -> str | None:
        """Return the file's text, or None with a problem that says what is wrong with it."""
        if len(raw) > MAX_BYTES:
            self.problem("the file", "is too large", f"{len(raw):,} bytes", f"a playbook has at most {MAX_BYTES:,}")
            return None
        if isinstance(raw, bytes) and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self.problem("the file", "is UTF-16", "", "save it as UTF-8")
            return None
        try:
            text = (raw.decode("utf-8") if isinstance(raw, bytes) else raw).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            byte = f"byte 0x{error.object[error.start]:02x} at {error.start}"
            self.problem(f"line {line}", "is not UTF-8", byte, f"save the file as UTF-8, or {self.mend}")
            return None
        if text.strip():
            return text
        self.problem("the file", "is empty", "", self.mend)
        return None

    def parse(self, raw: bytes | str) -> dict[str, Any] | None:
        """Return the file's JSON object, or None with a problem that says where reading stopped."""
        text = self.decode(raw)
        if text is None:
            return None
        try:
            document = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_NoNumber)
        except json.JSONDecodeError as error:
            near = text[max(error.pos - error.colno + 1, error.pos - 40) : error.pos + 20].split("\n")[0]
            cut_off = error.msg.startswith("Unterminated") or not text[error.pos : error.pos + 1000].strip()
            at_end = " (the file ends there: it was cut off)" if cut_off else ""
            where = f"line {error.lineno}, column {error.colno}"
            self.problem(where, f"is not JSON: {error.msg}{at_end}", SHOWN.repr(near), self.mend)
            return None
        except RecursionError:
            self.problem("the file", "is nested too deeply to be a playbook", "", self.mend)
            return None
        if not isinstance(document, dict):
            way_out = SHAPES if self.foreign else f"it is not a playbook; {REBUILD}"
            self.problem("the file", "is not a JSON object", SHOWN.repr(document), way_out)
            return None
        self.duplicates("the file", document)
        return document

    def duplicates(self, where: str, value: dict[str, Any]) -> None:
        for key in value.twice if isinstance(value, _Duplicates) else ():
            self.problem(where, "holds a key twice", SHOWN.repr(key), "keep one of the two")

    def sections(self, sections: object) -> None:
        """Titles in any case; bullets under an unknown title go to OTHERS."""
        if not isinstance(sections, dict):
            self.problem("sections", "is not an object", SHOWN.repr(sections), 'write {"OTHERS": []} at least')
            return
        self.duplicates("sections", sections)
        for title, entries in sections.items():
            shown = f"sections[{SHOWN.repr(title)}]"
            slug = section_slug(title)
            if not isinstance(entries, list):
                self.problem(shown, "is not a list", SHOWN.repr(entries), "write [] for a section without bullets")
                continue
            if slug == "oth" and entries and not _is_title(title):
                self.notes.append(f"{shown} is not a section; its {len(entries)} bullets go to OTHERS")
            for index, entry in enumerate(entries):
                self.entry(f"{shown}[{index}]", slug, entry)

    def key_points(self, points: object) -> None:
        """The flat list of earlier versions: bare texts, or objects with or without counters or a score."""
        if not isinstance(points, list):
            self.problem("key_points", "is not a list", SHOWN.repr(points), "write [] for none")
            return
        self.unnamed_are_kpt = True
        for index, entry in enumerate(points):
            self.entry(f"key_points[{index}]", "oth", entry)

    def elsewhere(self, key: str, found: dict[str, Any] | list[Any]) -> None:
        """Another system's advice by its id, or a list of it: `content` or `text`, `helpful`, `harmful`, `section`."""
        if isinstance(found, dict):
            self.duplicates(key, found)
        strange, left = 0, set[str]()
        for of, entry in found.items() if isinstance(found, dict) else enumerate(found):
            where = f"{key}[{SHOWN.repr(of)}]"
            if not isinstance(entry, dict):
                self.entry(where, "oth", entry)
                continue
            self.duplicates(where, entry)
            if (status := entry.get("status", "active")) != "active":
                self.notes.append(f"{where} is {SHOWN.repr(status)} there and is left out")
                continue
            section = entry.get("section")
            strange += not (isinstance(section, str) and _is_title(section))
            ours = {name: entry[name] for name in ("text", "helpful", "harmful") if name in entry}
            if "text" not in ours and "content" in entry:
                ours["text"] = entry["content"]
            left |= entry.keys() - _ENTRY_KEYS - {"id", "content", "section", "status"}
            self.entry(where, section_slug(section) if isinstance(section, str) else "oth", ours)
        if strange:
            self.notes.append(f"{strange} of {key} are in unknown sections and go to OTHERS")
        if left:
            self.notes.append(f"{', '.join(sorted(map(SHOWN.repr, left))[:5])} of {key} is not kept")

    def entry(self, where: str, slug: str, entry: object) -> None:
        if isinstance(entry, str):
            if is_name(entry) or _IDENTIFIER.fullmatch(entry.strip()):
                self.problem(where, "is an id, not a text", SHOWN.repr(entry), "write the text that it stands for")
                return
            entry = {"text": entry}
        if not isinstance(entry, dict):
            self.problem(where, "is not a bullet", SHOWN.repr(entry), _FORM)
            return
        name = entry.get("name")
        if name is not None:
            where = f"{where} {SHOWN.repr(name)}"
        self.duplicates(where, entry)
        before = len(self.problems)
        if name is not None and not is_name(name):
            self.problem(where, "the name has no known form", SHOWN.repr(name), _NAMES)
        text = entry.get("text")
        if (fault := text_fault(text)) is not None:
            shown = SHOWN.repr(text) if "text" in entry else "missing"
            self.problem(where, fault, shown, "correct the text, or remove the entry")
        counters = self.counters(where, entry)
        unknown = sorted(SHOWN.repr(key) for key in entry if key not in _ENTRY_KEYS and key != "score")
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
            what = "is not a whole number"
        wanted = "0 or more" if low == 0 else f"from {low:,} to {MAX_COUNT:,}"
        self.problem(where, f"{key} {what}", SHOWN.repr(value), f"write {key} as a whole number, {wanted}")
        return 0

    def bullets(self) -> list[Bullet]:
        """Return the entries under names that no other entry has; the first of two keeps the name."""
        owners: dict[str, _Entry] = {}
        for entry in self.entries:
            if entry.name is not None and (owner := owners.setdefault(entry.name, entry)) is not entry:
                at = f"at {owner.where.rsplit(' ', 1)[0]}"
                self.problem(entry.where, "the name is there already", at, _TWICE)
        names = Names([*self.taken, *owners], self.first)
        found = []
        for entry in self.entries:
            name = entry.name
            if name is None:
                name = names.next("kpt" if self.unnamed_are_kpt else entry.slug)
                self.named_here.add(name)
            elif owners[name] is not entry:
                continue
            if entry.counters is None:
                self.uncounted.add(name)
            self.places[name] = entry.where
            found.append(Bullet(name, entry.slug, entry.text, *(entry.counters or (0, 0))))
        return found
