"""The advice that a person's agents load in a project, line by line, and these lines as watched
bullets: judged and listed, but neither written to playbook.json nor shown to an agent.

Invariant: nothing of a repository leads outside of it. A file of the project is read where it lies
in it; an import (`@docs/style.md`) is followed below the project and below the agents' own folders
of the person, and named where it is not. A file that the person names is read wherever it is.
Nothing is written to a file.

The same text is the same bullet, whichever file holds it, and one that the playbook has already is
that bullet. A line that was reworded keeps its name and its evidence; one that is gone is removed,
and watched again when it comes back. Nothing here makes a bullet live: that is for `adopt`.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.changes.apply import advice_fault, bullet_event
from reflector.events import event as ev
from reflector.files import read_bounded
from reflector.ledger.store import BulletRow, Ledger
from reflector.locate import AGENT_FILES, agent_folder, agent_folders
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import Loaded
from reflector.playbook.markdown import is_markdown, load_markdown
from reflector.playbook.names import Names
from reflector.text.words import context_tokens, terms, words_of

ACTOR = "check"
#: The share of words in order from which on one text is another one reworded.
_LEAST_LIKENESS = 0.6
#: What the agents load in a project besides `AGENT_FILES`, below its folder.
_RULES = (
    ".claude/CLAUDE.md",
    ".claude/rules/**/*.md",
    ".github/instructions/**/*.instructions.md",
)
_MAX_BYTES = 1 << 20
#: As often Claude Code follows an import of an import.
_MAX_HOPS = 5
#: As Claude Code 2.1.332 has it: a space in a name is escaped. `_PUNCTUATION` may follow a name in
#: a sentence.
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)", re.M)
_PUNCTUATION = ".,;:!?)]}'\"`*_。，、；：！？）」"
#: The front matter of a rule, and what in it limits the rule to some files.
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SCOPE = re.compile(
    r"^(?:paths|globs|applyTo):[ \t]*(\S.*|(?:\r?\n[ \t]*-[ \t].*)+)",
    re.MULTILINE,
)
#: Files that agents load in a sub-folder, folders that hold nobody's advice, and how many are
#: looked at.
_NESTED = frozenset(("CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md"))
_NO_ADVICE = frozenset(("node_modules", "vendor", "target", "dist", "build", "__pycache__"))
_MAX_FOLDERS = 5_000
#: In the place of an importer: agents load the file by themselves.
_LOADED = "?"
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.M | re.S)


class Line(NamedTuple):
    """One piece of advice in a file: `name` where the file gives it one."""

    file: str
    number: int
    section: str
    text: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice of a project's files.

    files     with the tokens of each
    scopes    of the files that an agent loads only for some files, the patterns of these
    omitted   what was left out, and why: text that is not advice, repeated lines, imports from
              outside the project
    """

    lines: tuple[Line, ...]
    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    omitted: tuple[str, ...]


def advice_of(root: Path, named: Sequence[Path] = ()) -> Advice:
    """Return the advice of the files that a person names, else of those that agents load in a
    project. Each text stands once. Raises OSError for a named file that cannot be read.
    """
    lines: dict[str, Line] = {}
    files: dict[str, int] = {}
    scopes: dict[str, tuple[str, ...]] = {}
    omitted: list[str] = []
    unread: list[str] = []
    for file in _files_of(root, named, unread):
        text = file.raw.decode("utf-8-sig", "replace")
        files[file.shown] = context_tokens(_without_comments(text))
        if scope := scope_of(text):
            scopes[file.shown] = scope
        loaded = load_markdown(text, every=True)
        notes = [note.removeprefix("left out: ") for note in loaded.notes]
        omitted += [f"{file.shown}: {note}" for note in notes]
        omitted += _add_lines(lines, file.shown, loaded)
    if not named:
        unread += _elsewhere(root)
    return Advice(tuple(lines.values()), files, scopes, (*omitted, *unread))


def advice_digest(root: Path) -> str:
    """Return the SHA-256 over the files that agents load in a project: a change of it is a change
    of their advice.
    """
    digest = sha256()
    for file in _files_of(root, (), []):
        digest.update(b"%s\0%d\0%s" % (os.fsencode(file.shown), len(file.raw), file.raw))
    return digest.hexdigest()


def _add_lines(lines: dict[str, Line], file: str, loaded: Loaded) -> Iterator[str]:
    """Add the advice of a file to the lines, which are by their words; yield what is left out."""
    numbers = {name: int(place.split()[1]) for name, place in loaded.places.items()}
    for bullet in sorted(loaded.bullets, key=lambda bullet: numbers[bullet.name]):
        if fault := advice_fault(bullet.text):
            yield f"{file}: {loaded.places[bullet.name]}: {fault}"
            continue
        name = None if bullet.name in loaded.named_here else bullet.name
        line = Line(file, numbers[bullet.name], bullet.section, bullet.text, name)
        first = lines.setdefault(same_words(bullet.text), line)
        if first is not line and first.file == file:
            yield f"{file}: line {line.number} repeats line {first.number}"


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, str]:
    """Return by name the bullets that no trial can withhold, each with the file that an agent loads
    by itself, the person's CLAUDE.md as well: all words of the bullet stand in a row there,
    whatever is between them.
    """
    files = list(_files_of(root, (), []))
    with suppress(OSError):
        files += _files_of(root, [Path(agent_folder()).expanduser() / "CLAUDE.md"], [])
    runs = {bullet.name: _in_a_row(bullet.text) for bullet in bullets if words_of(bullet.text)}
    exempted: dict[str, str] = {}
    for file in files:
        text = _in_a_row(file.raw.decode("utf-8", "replace"))
        exempted |= {name: file.shown for name, run in runs.items() if run in text}
    return exempted


def _in_a_row(text: str) -> str:
    return " ".join(["", *words_of(text), ""])


class _File(NamedTuple):
    """A file of advice, with its path as it is shown."""

    shown: str
    raw: bytes


class _Wanted(NamedTuple):
    """A file to read.

    hops      how many imports led to it
    importer  the file that imports it, as it is shown; "" for one that the person named, and
              `_LOADED` for one that agents load
    """

    path: Path
    hops: int = 0
    importer: str = ""

    @property
    def is_loaded(self) -> bool:
        return self.importer == _LOADED


def _files_of(root: Path, named: Sequence[Path], unread: list[str]) -> Iterator[_File]:
    """Yield each file and the files that it imports, each once; note the files that are not read.

    Raises OSError for a named file that cannot be read.
    """
    project = root.resolve()
    allowed = [project, *(Path(folder).resolve() for folder in agent_folders())]
    seen: set[Path] = set()
    queue = deque(_named(root, named))
    while queue:
        wanted = queue.popleft()
        path = wanted.path.resolve()
        if path in seen:
            continue
        shown = _shown(wanted.path, root)
        folders = [project] if wanted.is_loaded else allowed
        if wanted.importer and not any(map(path.is_relative_to, folders)):
            unread.append(_outside_note(wanted, shown))
            continue
        try:
            raw = read_bounded(path, _MAX_BYTES)
        except OSError as error:
            if not wanted.importer:
                raise
            unread.append(_unread_note(wanted, shown, error))
            continue
        seen.add(path)
        yield _File(shown, raw)
        if wanted.hops < _MAX_HOPS:
            text = raw.decode("utf-8", "replace")
            imports = _imports(wanted.path, text)
            queue.extend(_Wanted(target, wanted.hops + 1, shown) for target in imports)


def _named(root: Path, named: Sequence[Path]) -> list[_Wanted]:
    """Return the files that a person named, else those that agents load in a project."""
    if named:
        return [_Wanted(path.absolute()) for path in named]
    paths = [root / name for name in AGENT_FILES]
    paths += sorted(path for pattern in _RULES for path in root.glob(pattern))
    return [_Wanted(path, importer=_LOADED) for path in paths if path.exists()]


def _outside_note(wanted: _Wanted, shown: str) -> str:
    if wanted.is_loaded:
        return f"not followed: {shown}, a link"
    return f"not followed: @{shown} in {wanted.importer}"


def _unread_note(wanted: _Wanted, shown: str, error: OSError) -> str:
    if wanted.is_loaded:
        return f"not read: {shown} {error.strerror}"
    return f"not followed: @{shown} in {wanted.importer}, which cannot be read"


def _imports(path: Path, text: str) -> Iterator[Path]:
    """Yield the files that a file imports. `@name` without an ending is one if it is there:
    `@alice` is a person.
    """
    for written in dict.fromkeys(_IMPORT.findall(_CODE.sub("", text))):
        name = written.partition("#")[0].replace("\\ ", " ")
        plain = name.rstrip(_PUNCTUATION)
        target = _existing(path.parent, name) or _existing(path.parent, plain)
        if target is not None:
            yield target
        elif "." in plain.rpartition("/")[2][1:-1]:
            with suppress(RuntimeError):
                yield path.parent / Path(plain).expanduser()


def _existing(folder: Path, name: str) -> Path | None:
    """Return the file of a name in a folder, or below a home; None if there is none."""
    with suppress(OSError, RuntimeError, ValueError):  # too long, no home, a NUL
        target = folder / Path(name).expanduser()
        return target if target.is_file() else None
    return None


def _elsewhere(root: Path) -> Iterator[str]:
    """Yield notes on the files that agents load as well and that are not read: those of
    sub-folders, and the person's own.
    """
    for folder, folders, names in islice(os.walk(root), _MAX_FOLDERS):
        folders[:] = sorted(name for name in folders if _may_hold_advice(name))
        if Path(folder) == root:
            continue
        for name in sorted(_NESTED.intersection(names)):
            shown = _shown(Path(folder) / name, root)
            yield (
                f"not read: {shown}, which agents load when they work there; see: reflector "
                f"check {quote(shown)}"
            )
    if (nested := root / ".claude/AGENTS.md").is_file():
        yield f"not read: {_shown(nested, root)}; see: reflector check .claude/AGENTS.md"
    users = Path(agent_folder()).expanduser()
    with suppress(OSError):
        for path in [users / "CLAUDE.md", *sorted(users.glob("rules/**/*.md"))]:
            if path.is_file() and not path.resolve().is_relative_to(root.resolve()):
                yield (
                    f"not read: {path}, which is loaded in every project; see: reflector check "
                    f"{quote(str(path))}"
                )


def _may_hold_advice(folder: str) -> bool:
    return folder not in _NO_ADVICE and not folder.startswith(".")


def scope_of(text: str) -> tuple[str, ...]:
    """Return the patterns of the files at which an agent loads a rule; none for one that it
    loads at each start.
    """
    front_matter = _FRONT_MATTER.match(text)
    scope = _SCOPE.search(front_matter[1]) if front_matter else None
    if scope is None:
        return ()
    patterns = [pattern.strip(" \t\"'[]-") for pattern in re.split(r"[,\n]", scope[1])]
    if not {"**", "**/*"}.isdisjoint(patterns):
        return ()
    return tuple(filter(None, patterns))


def _without_comments(text: str) -> str:
    """Return a text without its HTML comments, which no agent is shown."""
    pieces: list[str] = []
    position = 0
    while True:
        start = text.find("<!--", position)
        end = text.find("-->", start) if start >= 0 else -1
        if end < 0:
            return "".join([*pieces, text[position:]])
        pieces.append(text[position:start])
        position = end + 3


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


class Watching(NamedTuple):
    """The lines by the names of their bullets, and the changes that lead there, each with its
    file.
    """

    lines: dict[str, Line]
    changes: list[tuple[Change, str]]


def watch(ledger: Ledger, watching: Watching) -> None:
    """Record the changes. The playbook's lock must be held. Raises LedgerError."""
    tx = ledger.draw()
    ledger.append(
        [
            bullet_event(
                change,
                tx,
                index,
                actor=ACTOR,
                origin=file,
                reason=f"gone from {file}",
                more={"watched": True} if change.kind in ("add", "restore") else None,
            )
            for index, (change, file) in enumerate(watching.changes)
        ],
        tx=tx,
    )


def watching(ledger: Ledger, lines: Sequence[Line], *, first: int = 0) -> Watching:
    """Return what watching these lines changes; `first` is the lowest number of a new name.
    Raises LedgerError.
    """
    rows = {row.name: row for row in ledger.rows()}
    file_of = _files(ledger)
    lines_by_name, new = _matched(rows, lines)
    changes = [
        (Change("restore", name), line.file)
        for name, line in lines_by_name.items()
        if rows[name].status == "removed"
    ]
    files = {line.file for line in lines}
    unmatched = [row for row in _watched(rows.values()) if row.name not in lines_by_name]
    lost = [row for row in unmatched if file_of.get(row.name) in files]
    names = Names(rows, first)
    for line in new:
        reworded = _reworded(line, [row for row in lost if file_of[row.name] == line.file])
        if reworded is not None:
            lost.remove(reworded)
            name = reworded.name
            change = Change("revise", name, text=line.text)
        else:
            name = names.next(line.section)
            change = Change("add", name, section=line.section, text=line.text)
        changes.append((change, line.file))
        lines_by_name[name] = line
    changes += [(Change("remove", row.name), file_of[row.name]) for row in lost]
    return Watching(lines_by_name, changes)


def _watched(rows: Iterable[BulletRow]) -> list[BulletRow]:
    return [row for row in rows if row.status == "watched"]


def _matched(
    rows: Mapping[str, BulletRow], lines: Sequence[Line]
) -> tuple[dict[str, Line], list[Line]]:
    """Return the lines of known bullets by their names, and the new lines.

    Of bullets with the same words, a live one comes first and a removed one last.
    """
    order = {"removed": 0, "live": 2}
    by_status = sorted(rows.values(), key=lambda row: order.get(row.status, 1))
    names = {same_words(row.text): row.name for row in by_status}
    lines_by_name: dict[str, Line] = {}
    new: list[Line] = []
    for line in lines:
        row = rows.get(line.name or "") or rows.get(names.get(same_words(line.text), ""))
        if row is None or row.status == "merged":
            new.append(line)
        else:
            lines_by_name.setdefault(row.name, line)
    return lines_by_name, new


def _reworded(line: Line, rows: Sequence[BulletRow]) -> BulletRow | None:
    """Return the bullet that a line says in other words; None if none is near."""
    nearest = max(rows, key=partial(_like, line), default=None)
    if nearest is None or _like(line, nearest) < _LEAST_LIKENESS:
        return None
    return nearest


def adopting(ledger: Ledger, loaded: Loaded, raw: bytes) -> tuple[Loaded, list[Change]]:
    """Return a file without what is watched, and the changes that make that the playbook's.
    Raises LedgerError.
    """
    every = load_markdown(raw, every=True) if is_markdown(raw) else loaded
    texts = {same_words(bullet.text) for bullet in every.bullets}
    watched = {row.name: same_words(row.text) for row in _watched(ledger.rows())}
    adopted = {name: text for name, text in watched.items() if text in texts}
    rest = tuple(b for b in loaded.bullets if same_words(b.text) not in adopted.values())
    return replace(loaded, bullets=rest), [Change("restore", name) for name in adopted]


def _files(ledger: Ledger) -> dict[str, str]:
    """Return the file that each watched bullet was found in first."""
    added = [event.data or {} for event in ledger.events(types=[ev.BULLET_ADDED])]
    watched = [data for data in added if data.get("watched")]
    return {str(data["name"]): str(data.get("origin")) for data in watched}


def _like(line: Line, row: BulletRow) -> float:
    """Return the share of words in order that a line and a bullet have in common."""
    words_before = terms(same_words(row.text))
    words_after = terms(same_words(line.text))
    return SequenceMatcher(None, words_before, words_after, autojunk=False).ratio()
