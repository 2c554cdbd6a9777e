"""Reads and writes playbook.json.

Invariant: `load(dump(bullets, …)).bullets == bullets`. Each thing that `load` cannot read is a
finding that names the entry, the value and the repair. A file with findings is never overwritten.

The format (version "1.0") is a documented contract, which reflector shares with the tool that first
wrote such files:

    {"version": "1.0", "last_updated": ISO time or null, "sections": {title: [{"name", "text",
    "helpful", "harmful"}]}}

A file that is shared through git has neither "last_updated" nor counters, and its bullets are
ordered by name.

The file is indented by two and not escaped to ASCII, with all five sections in canonical order and
a newline at the end, as editors and git like it. The bullets of a section are in the given order,
which is that of their creation. Texts are kept exactly.
"""

from __future__ import annotations

import json
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from reflector.mistakes import Finding
from reflector.text.lazy import lazy_pattern

from .ace import in_our_form
from .admissible import MAX_COUNT, text_fault
from .bullet import Bullet
from .change import Change
from .names import SECTIONS, Names, by_number, is_below, is_name, section_of
from .shape import is_playbook, may_be_playbook
from .versions import edits_between

VERSION = "1.0"
MAX_BYTES = 64 * 1024 * 1024

CORRECT = "correct the file"
REBUILD = f"{CORRECT}, or write it again from the ledger with `reflector rebuild`"
_IMPORT = "correct the file, and import it again"
_FORM = 'write {"name", "text", "helpful", "harmful"}, or the text alone'
_NAMES = (
    "write a name such as pat-001, mis-001, pref-001, ctx-001, oth-001 or kpt_001, or omit the "
    "name to get a new one"
)
_TWICE = "remove one of these rules, or omit its name to get a new name"
_SHAPES = "reflector reads rules only from `sections` and `key_points`; move your rules there"
#: One word that ends in a number, such as `shell_usage-00012`, or a UUID. It names advice and is
#: not advice itself.
_IDENTIFIER = lazy_pattern(r"[\w.]+[-_]\d+|[0-9a-fA-F-]{32,36}")
_ENTRY_KEYS = frozenset({"name", "text", "helpful", "harmful", "score"})

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_short.maxdict = _short.maxlist = 3
_short.maxlevel = 2
#: A foreign value as an error shows it.
brief = _short.repr

Format = Literal["sections", "key_points", "text", "markdown", "unreadable", "foreign"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a playbook file.

    format        the shape of the file; "unreadable" if it is damaged, "foreign" if it is not a
                  playbook
    bullets       the readable bullets, in canonical order of sections; inside a section, in the
                  order of the file
    last_updated  as written; None if it is missing or cannot be a time
    problems      the parts that could not be read; without any, the file was understood completely
    notes         the parts that were understood but change when the file is written again
    named_here    names that the file does not contain: `load` gave them to entries without a name
    uncounted     names of bullets without counters in the file; their counts stay
    places        the place of each bullet in the file, such as "line 7", by its name
    """

    format: Format
    bullets: tuple[Bullet, ...] = ()
    last_updated: str | None = None
    problems: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    named_here: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def edits_of(self, bullets: Sequence[Bullet]) -> list[Change]:
        """Return the changes that lead from these bullets to the file's."""
        return edits_between(bullets, self.bullets, self.named_here, self.uncounted)


def dump(bullets: Iterable[Bullet], last_updated: str | None) -> bytes:
    """Return the file's bytes for live bullets.

    Raises: KeyError if the section of a bullet is not one of the five.
    """
    keys = ("name", "text", "helpful", "harmful")
    entries = [(b.section, {key: getattr(b, key) for key in keys}) for b in bullets]
    return _dumped({"version": VERSION, "last_updated": last_updated}, entries)


def dump_shared(bullets: Iterable[Bullet]) -> bytes:
    """Return the bytes of a file that several ledgers share: the texts of their bullets, without
    counts.

    Bullets are in the order of their names, so the same advice gives the same bytes on every
    machine.
    """
    ordered = sorted(bullets, key=lambda b: by_number(b.name))
    return _dumped(
        {"version": VERSION}, [(b.section, {"name": b.name, "text": b.text}) for b in ordered]
    )


def entry_text(bullet: Bullet) -> str:
    """Return the beginning of a bullet in every dumped file: its name and its text."""
    whole = dump_shared([bullet]).decode()
    start = whole.index('"name": ')
    return whole[start : whole.index("\n      }", start)]


def _dumped(head: dict[str, Any], entries: Iterable[tuple[str, dict[str, Any]]]) -> bytes:
    sections: dict[str, list[dict[str, Any]]] = {slug: [] for slug in SECTIONS}
    for section, entry in entries:
        sections[section].append(entry)
    document = {**head, "sections": {SECTIONS[slug]: entries for slug, entries in sections.items()}}
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def load(
    raw: bytes | str, taken: Iterable[str] = (), first: int = 0, *, foreign: bool = False
) -> Loaded:
    """Read a playbook file of any known shape. Never raises for its content.

    `taken` contains names that entries without a name must not get, besides the names in the file.
    They are all names that the ledger ever gave out, so that no bullet inherits the history of a
    removed one. `first` is the lowest number of a name here: an entry with a lower number is read
    as one without a name. A `foreign` file is not the project's own file, so the ledger cannot
    write it again.
    """
    parser = Parser(set(taken), first, foreign=foreign)
    document = parser.parse(raw)
    if document is None:
        return parser.loaded("foreign" if parser.is_foreign else "unreadable")
    shape: Format = "sections"
    if "sections" in document:
        parser.sections(document["sections"])
        if "key_points" in document:
            parser.notes.append("reflector ignored `key_points`, because the file has sections")
    elif "key_points" in document:
        shape = "key_points"
        parser.key_points(document["key_points"])
    else:
        keys = ", ".join(sorted(brief(key) for key in list(document)[:8])) or "no keys"
        parser.problem("the file", "has neither sections nor key_points", keys, parser.way_out)
        return parser.loaded("foreign")
    if parser.is_foreign and parser.problems:
        return parser.loaded("foreign")
    if (version := document.get("version", VERSION)) != VERSION:
        parser.notes.append(
            f"reflector read the file as version {VERSION}, although the file has version "
            f"{brief(version)}"
        )
    updated = document.get("last_updated")
    if updated is not None and not _may_be_time(updated):
        parser.notes.append(
            f"reflector ignored last_updated, because {brief(updated)} is not a time"
        )
        updated = None
    return parser.loaded(shape, updated)


def _may_be_time(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 64 and value.isprintable()


class _Duplicates(dict[str, Any]):
    """A JSON object with duplicate keys. It keeps the last value of each key, as JSON readers do,
    and lists the duplicate keys in `twice`.
    """

    twice: tuple[str, ...] = ()


class _NoNumber:
    """NaN, Infinity, or an integer that is too long to be worth its conversion."""

    def __init__(self, literal: str) -> None:
        self.literal = literal

    def __repr__(self) -> str:
        return self.literal


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    marked = _Duplicates(mapping)
    counts = Counter(key for key, _ in pairs)
    marked.twice = tuple(key for key, count in counts.items() if count > 1)
    return marked


def _integer(literal: str) -> int | _NoNumber:
    return int(literal) if len(literal) <= 20 else _NoNumber(literal)


class _Entry(NamedTuple):
    where: str
    slug: str
    name: str | None
    text: str
    counters: tuple[int, int] | None


class Parser:
    def __init__(self, taken: set[str], first: int = 0, *, foreign: bool = False) -> None:
        self.taken = taken
        self.first = first
        self.foreign = foreign
        self.problems: list[Finding] = []
        self.notes: list[str] = []
        self.entries: list[_Entry] = []
        self.named_here: set[str] = set()
        self.uncounted: set[str] = set()
        self.places: dict[str, str] = {}
        self.unnamed_are_kpt = False
        self.is_foreign = False

    def problem(self, where: str, fault: str, value: str, way_out: str) -> None:
        self.problems.append(Finding("playbook", where, fault, way_out, value))

    @property
    def remedy(self) -> str:
        """The repair of a fault of the whole file."""
        return _IMPORT if self.foreign else REBUILD

    @property
    def way_out(self) -> str:
        """The next step for a file that is not a playbook."""
        return _SHAPES if self.foreign else f"the file is not a playbook; {REBUILD}"

    def decode(self, raw: bytes | str) -> str | None:
        """Return the file's text, or None with a problem that describes the fault."""
        if len(raw) > MAX_BYTES:
            self.problem(
                "the file",
                "is too large",
                f"{len(raw):,} bytes",
                f"make the file smaller; a playbook has at most {MAX_BYTES:,} bytes",
            )
            return None
        if isinstance(raw, bytes) and raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self.problem("the file", "is UTF-16", "", "save the file as UTF-8")
            return None
        try:
            text = (raw.decode("utf-8") if isinstance(raw, bytes) else raw).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            byte = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
            self.problem(
                f"line {line}", "is not UTF-8", byte, f"save the file as UTF-8, or {self.remedy}"
            )
            return None
        if text.strip():
            return text
        self.problem("the file", "is empty", "", self.remedy)
        return None

    def parse(self, raw: bytes | str) -> dict[str, Any] | None:
        """Return the file's JSON object, or None with a problem that shows where reading failed."""
        text = self.decode(raw)
        if text is None:
            return None
        try:
            document = json.loads(
                text, object_pairs_hook=_object, parse_int=_integer, parse_constant=_NoNumber
            )
        except json.JSONDecodeError as error:
            line_start = error.pos - error.colno + 1
            near = text[max(line_start, error.pos - 40) : error.pos + 20].split("\n")[0]
            is_at_end = not text[error.pos : error.pos + 1000].strip()
            is_cut_off = is_at_end or error.msg.startswith("Unterminated")
            at_end = " (the file ends at this place, so its end is missing)" if is_cut_off else ""
            where = f"line {error.lineno}, column {error.colno}"
            self.is_foreign = not may_be_playbook(text)
            self.problem(where, f"is not JSON: {error.msg}{at_end}", brief(near), self.remedy)
            return None
        except RecursionError:
            self.problem("the file", "is nested too deeply to be a playbook", "", self.remedy)
            return None
        self.is_foreign = not is_playbook(document)
        if not self.is_foreign:
            document = in_our_form(document, self.notes)
        if not isinstance(document, dict):
            self.problem("the file", "is not a JSON object", brief(document), self.way_out)
            return None
        self.duplicates("the file", document)
        return document

    def duplicates(self, where: str, value: dict[str, Any]) -> None:
        for key in value.twice if isinstance(value, _Duplicates) else ():
            self.problem(
                where, "contains the same key twice", brief(key), "remove one of these keys"
            )

    def sections(self, sections: object) -> None:
        """Read the sections. Titles may be in any case. Bullets under an unknown title go to
        OTHERS.
        """
        if not isinstance(sections, dict):
            self.problem(
                "sections", "is not an object", brief(sections), 'write at least {"OTHERS": []}'
            )
            return
        self.duplicates("sections", sections)
        for title, entries in sections.items():
            shown = f"sections[{brief(title)}]"
            slug = section_of(title)
            if not isinstance(entries, list):
                self.problem(
                    shown,
                    "is not a list",
                    brief(entries),
                    "write [] for an empty section",
                )
                continue
            if slug is None and entries:
                self.notes.append(
                    f"{shown} is not a known section, so reflector puts its {len(entries)} rules "
                    "into OTHERS"
                )
            for index, entry in enumerate(entries):
                self.entry(f"{shown}[{index}]", slug or "oth", entry)

    def key_points(self, points: object) -> None:
        """Read the flat list of earlier versions: bare texts, or objects with or without counters
        or a score.
        """
        if not isinstance(points, list):
            self.problem(
                "key_points", "is not a list", brief(points), "write [] if there are no rules"
            )
            return
        self.unnamed_are_kpt = True
        for index, entry in enumerate(points):
            self.entry(f"key_points[{index}]", "oth", entry)

    def entry(self, where: str, slug: str, entry: object) -> None:
        """Read an entry of a section, or note its fault."""
        if isinstance(entry, str):
            if is_name(entry) or _IDENTIFIER.fullmatch(entry.strip()):
                way_out = "write the text of the rule that has this id"
                self.problem(where, "is an id, not a rule's text", brief(entry), way_out)
                return
            entry = {"text": entry}
        if isinstance(entry, dict):
            self.object(where, slug, entry)
        else:
            self.problem(where, "is not a rule", brief(entry), _FORM)

    def object(self, where: str, slug: str, entry: dict[str, Any]) -> None:
        """Read an entry that is an object."""
        before = len(self.problems)
        name = entry.get("name")
        if name is not None:
            where = f"{where} {brief(name)}"
        self.duplicates(where, entry)
        if name is not None and not is_name(name):
            self.problem(where, "the name is not valid", brief(name), _NAMES)
        text = self.text(where, entry)
        counters = self.counters(where, entry)
        unknown = sorted(brief(key) for key in entry if key not in _ENTRY_KEYS)
        if unknown:
            self.notes.append(
                f"{where}: reflector omitted {', '.join(unknown[:5])}, which is not part of the "
                "format"
            )
        if isinstance(name, str) and is_name(name) and is_below(name, self.first):
            self.notes.append(
                f"{where}: the numbers in this playbook's rule names start at {self.first}, so "
                "this rule gets a new name"
            )
            name = None
        if len(self.problems) == before:
            self.entries.append(_Entry(where, slug, name, text, counters))
        elif isinstance(name, str) and is_name(name):
            self.taken.add(name)  # an entry that cannot be read still owns its name

    def text(self, where: str, entry: dict[str, Any]) -> str:
        text = entry.get("text")
        if (fault := text_fault(text)) is not None:
            shown = brief(text) if "text" in entry else "missing"
            self.problem(where, fault, shown, "correct the text, or remove the entry")
        return str(text)

    def counters(self, where: str, entry: dict[str, Any]) -> tuple[int, int] | None:
        if not entry.keys() & {"helpful", "harmful", "score"}:
            return None
        if "score" in entry and not entry.keys() & {"helpful", "harmful"}:
            # The oldest form had one number: its sign gave the counter.
            score = self.count(where, entry, "score", low=-MAX_COUNT)
            return max(score, 0), max(-score, 0)
        return self.count(where, entry, "helpful"), self.count(where, entry, "harmful")

    def count(self, where: str, entry: dict[str, Any], key: str, low: int = 0) -> int:
        value = entry.get(key, 0)
        if type(value) is int and low <= value <= MAX_COUNT:
            return value
        is_below = type(value) is int and value < low == 0
        fault = f"is not a whole number from {low:,} to {MAX_COUNT:,}"
        if is_below:
            fault = "is negative"
        self.problem(where, f"{key} {fault}", brief(value), "correct the number")
        return 0

    def bullets(self) -> list[Bullet]:
        """Return the entries as bullets. If two entries have the same name, only the first is
        returned, and the other is a problem.
        """
        owners: dict[str, _Entry] = {}
        for entry in self.entries:
            if entry.name is None:
                continue
            owner = owners.setdefault(entry.name, entry)
            if owner is not entry:
                place = f"at {owner.where.rsplit(' ', 1)[0]}"
                self.problem(entry.where, "the name already exists", place, _TWICE)
        names = Names([*self.taken, *owners], self.first)
        bullets: list[Bullet] = []
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
            bullets.append(Bullet(name, entry.slug, entry.text, *(entry.counters or (0, 0))))
        return bullets

    def loaded(self, shape: Format, updated: str | None = None) -> Loaded:
        """Return the result of reading a file of this shape."""
        order = list(SECTIONS)
        bullets = sorted(self.bullets(), key=lambda bullet: order.index(bullet.section))
        return Loaded(
            format=shape,
            bullets=tuple(bullets),
            last_updated=updated,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            named_here=frozenset(self.named_here),
            uncounted=frozenset(self.uncounted),
            places=self.places,
        )
