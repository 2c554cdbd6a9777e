"""The advice that a person's agents load in a project, line by line, and these lines as watched
bullets: judged and listed, but neither written to playbook.json nor shown to an agent.

Invariant: nothing of a repository leads outside of it. A file of the project is read where it lies
in it; an import (`@docs/style.md`) is followed below the project and below the agents' own folders
of the person, and named where it is not. A file that the person names is read wherever it is.
Nothing is written to a file.

The same text is the same bullet, whichever file holds it, and one that the playbook has already is
that bullet. A line that was reworded keeps its name and its evidence; one that is gone is removed,
and watched again when it comes back. Nothing here makes a bullet live: that is for `import`.
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
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

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
from reflector.text.words import context_tokens, terms, words

ACTOR: Final = "check"
#: The share of words in order from which on one text is another one reworded.
_REWORDED: Final = 0.6
#: What the agents load in a project besides `AGENT_FILES`, below its folder.
_RULES: Final = (
    ".claude/CLAUDE.md",
    ".claude/rules/**/*.md",
    ".github/instructions/**/*.instructions.md",
)
_MOST_BYTES: Final = 1 << 20
#: As often Claude Code follows an import of an import.
_HOPS: Final = 5
#: As Claude Code 2.1.332 has it: a space in a name is escaped. `_BEHIND` may follow a name in a
#: sentence.
_IMPORT: Final = re.compile(r"(?:^|(?<=\s))@((?:[^\s\\]|\\ )+)", re.M)
_BEHIND: Final = ".,;:!?)]}'\"`*_。，、；：！？）」"
#: The front matter of a rule, and what in it limits the rule to some files.
_FRONT: Final = re.compile(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SCOPE: Final = re.compile(
    r"^(?:paths|globs|applyTo):[ \t]*(\S.*|(?:\r?\n[ \t]*-[ \t].*)+)",
    re.MULTILINE,
)
#: Files that agents load in a sub-folder, folders that hold nobody's advice, and how many are
#: looked at.
_NESTED: Final = frozenset(("CLAUDE.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md"))
_NO_ADVICE: Final = frozenset(("node_modules", "vendor", "target", "dist", "build", "__pycache__"))
_MOST_FOLDERS: Final = 5_000
_CODE: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.M | re.S)


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
    left      what was left out, and why: text that is not advice, repeated lines, imports from
              outside the project
    """

    lines: tuple[Line, ...]
    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    left: tuple[str, ...]


def advice_of(root: Path, named: Sequence[Path] = ()) -> Advice:
    """Return the advice of the files that a person names, else of those that agents load in a
    project. Each text stands once. Raises OSError for a named file that cannot be read.
    """
    lines: dict[str, Line] = {}
    files: dict[str, int] = {}
    left: list[str] = []
    unread: list[str] = []
    scopes: dict[str, tuple[str, ...]] = {}
    for shown, raw in _texts(root, named, unread):
        text = raw.decode("utf-8-sig", "replace")
        loaded = load_markdown(text, every=True)
        files[shown] = context_tokens(_without_comments(text))
        if scope := scope_of(text):
            scopes[shown] = scope
        left += [f"{shown}: {one.removeprefix('left out: ')}" for one in loaded.notes]
        for bullet in sorted(loaded.bullets, key=lambda one: _number(loaded.places[one.name])):
            if what := advice_fault(bullet.text):
                left.append(f"{shown}: {loaded.places[bullet.name]}: {what}")
                continue
            own = None if bullet.name in loaded.named_here else bullet.name
            line = Line(
                shown, _number(loaded.places[bullet.name]), bullet.section, bullet.text, own
            )
            first = lines.setdefault(same_words(bullet.text), line)
            if first is not line and first.file == line.file:
                left.append(f"{shown}: line {line.number} repeats line {first.number}")
    unread += [] if named else _elsewhere(root)
    return Advice(tuple(lines.values()), files, scopes, (*left, *unread))


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, str]:
    """Return by name the bullets that no trial can withhold, each with the file that an agent loads
    by itself, the person's CLAUDE.md as well: all words of the bullet stand in a row there,
    whatever is between them.
    """
    texts, users = list(_texts(root, (), [])), Path(agent_folder()).expanduser() / "CLAUDE.md"
    with suppress(OSError):
        texts += _texts(root, [users], [])
    plain = [(shown, _in_a_row(raw.decode("utf-8", "replace"))) for shown, raw in texts]
    named = [(one.name, _in_a_row(one.text)) for one in bullets]
    return {
        name: shown
        for shown, text in plain
        for name, words in named
        if words.strip() and words in text
    }


def _in_a_row(text: str) -> str:
    return " ".join(["", *words(text), ""])


def _number(place: str) -> int:
    return int(place.split()[1])


def _texts(root: Path, named: Sequence[Path], left: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (path as it is shown, content) of each file and of what it imports, each once; note
    what is left out.
    """
    inside = [root.resolve(), *(Path(one).resolve() for one in agent_folders())]
    seen: set[Path] = set()
    wanted = deque((path.absolute(), 0, "") for path in named)
    if not named:
        found = [root / name for name in AGENT_FILES] + sorted(
            path for one in _RULES for path in root.glob(one)
        )
        wanted.extend((path, 0, "?") for path in found if path.exists())
    while wanted:
        path, hops, by = wanted.popleft()
        real = path.resolve()
        if real in seen:
            continue
        shown = _shown(path, root)
        if by and not any(
            real.is_relative_to(one) for one in (inside[:1] if by == "?" else inside)
        ):
            left.append(
                f"not followed: {shown}, a link" if by == "?" else f"not followed: @{shown} in {by}"
            )
            continue
        try:
            raw = read_bounded(real, _MOST_BYTES)
        except OSError as error:
            if not by:
                raise
            if by == "?":
                left.append(f"not read: {shown} {error.strerror}")
            else:
                left.append(f"not followed: @{shown} in {by}, which cannot be read")
            continue
        seen.add(real)
        yield shown, raw
        if hops < _HOPS:
            wanted.extend(
                (one, hops + 1, shown) for one in _imports(path, raw.decode("utf-8", "replace"))
            )


def _imports(path: Path, text: str) -> Iterator[Path]:
    """Yield the files that a file imports. `@name` without an ending is one if it is there:
    `@alice` is a person.
    """
    for found in dict.fromkeys(_IMPORT.findall(_CODE.sub("", text))):
        name = found.partition("#")[0].replace("\\ ", " ")
        for one in dict.fromkeys((name, name.rstrip(_BEHIND))):
            # a name that is too long, no home, a NUL
            with suppress(OSError, RuntimeError, ValueError):
                target = path.parent / Path(one).expanduser()
                if target.is_file():
                    yield target
                    break
        else:
            if "." in name.rstrip(_BEHIND).rpartition("/")[2][1:-1]:
                with suppress(RuntimeError):
                    yield path.parent / Path(name.rstrip(_BEHIND)).expanduser()


def _elsewhere(root: Path) -> Iterator[str]:
    """Yield what agents load as well, and is not looked at: files of sub-folders, and the
    person's own.
    """
    for folder, folders, names in islice(os.walk(root), _MOST_FOLDERS):
        folders[:] = sorted(
            name for name in folders if name not in _NO_ADVICE and not name.startswith(".")
        )
        if Path(folder) != root:
            for name in sorted(_NESTED.intersection(names)):
                shown = _shown(Path(folder) / name, root)
                yield (
                    f"not read: {shown}, which agents load when they work there; see: reflector "
                    f"check {quote(shown)}"
                )
    if (nested := root / ".claude/AGENTS.md").is_file():
        yield f"not read: {_shown(nested, root)}; see: reflector check .claude/AGENTS.md"
    own = Path(agent_folder()).expanduser()
    with suppress(OSError):
        for path in [own / "CLAUDE.md", *sorted(own.glob("rules/**/*.md"))]:
            if path.is_file() and not path.resolve().is_relative_to(root.resolve()):
                yield (
                    f"not read: {path}, which is loaded in every project; see: reflector check "
                    f"{quote(str(path))}"
                )


def scope_of(text: str) -> tuple[str, ...]:
    """Return the patterns of the files at which an agent loads a rule; none for one that it
    loads at each start.
    """
    front = _FRONT.match(text)
    found = _SCOPE.search(front[1]) if front else None
    if found is None:
        return ()
    patterns = [one.strip(" \t\"'[]-") for one in re.split(r"[,\n]", found[1])]
    return tuple(one for one in patterns if one) if not {"**", "**/*"} & {*patterns} else ()


def _without_comments(text: str) -> str:
    """Return a text without its HTML comments, which no agent is shown."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join([*kept, text[at:]])


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


class Watching(NamedTuple):
    """The lines by the names of their bullets, and the changes that lead there, each with its
    file.
    """

    lines: dict[str, Line]
    changes: list[tuple[Change, str]]


def watch(ledger: Ledger, found: Watching) -> None:
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
            for index, (change, file) in enumerate(found.changes)
        ],
        tx=tx,
    )


def watching(ledger: Ledger, lines: Sequence[Line], *, first: int = 0) -> Watching:
    """Return what watching these lines changes; `first` is the lowest number of a new name.
    Raises LedgerError.
    """
    rows = {row.name: row for row in ledger.rows()}
    known = {
        same_words(row.text): row.name
        for row in sorted(rows.values(), key=lambda row: row.status != "removed")
    }
    known |= {same_words(row.text): row.name for row in rows.values() if row.status == "live"}
    file_of = _files(ledger)
    found: dict[str, Line] = {}
    new: list[Line] = []
    for line in lines:
        row = rows.get(line.name or "") or rows.get(known.get(same_words(line.text), ""))
        if row is not None and row.status != "merged":
            found.setdefault(row.name, line)
        else:
            new.append(line)
    files = {line.file for line in lines}
    left = [row for row in rows.values() if row.status == "watched" and row.name not in found]
    left = [row for row in left if file_of.get(row.name) in files]
    changes: list[tuple[Change, str]] = [
        (Change("restore", name), line.file)
        for name, line in found.items()
        if rows[name].status == "removed"
    ]
    names = Names(list(rows), first)
    for line in new:
        beside = (row for row in left if file_of[row.name] == line.file)
        near = max(beside, key=partial(_like, line), default=None)
        if near is not None and _like(line, near) >= _REWORDED:
            left.remove(near)
            changes.append((Change("revise", near.name, text=line.text), line.file))
        else:
            changes.append(
                (
                    Change("add", names.next(line.section), section=line.section, text=line.text),
                    line.file,
                )
            )
        found[changes[-1][0].name or ""] = line
    changes += [(Change("remove", row.name), file_of[row.name]) for row in left]
    return Watching(found, changes)


def adopting(ledger: Ledger, loaded: Loaded, raw: bytes) -> tuple[Loaded, list[Change]]:
    """Return a file without what is watched, and the changes that make that the playbook's.
    Raises LedgerError.
    """
    said = {
        same_words(one.text)
        for one in (load_markdown(raw, every=True) if is_markdown(raw) else loaded).bullets
    }
    watched = [
        row for row in ledger.rows() if row.status == "watched" and same_words(row.text) in said
    ]
    known = {same_words(row.text) for row in watched}
    left = tuple(one for one in loaded.bullets if same_words(one.text) not in known)
    return replace(loaded, bullets=left), [Change("restore", row.name) for row in watched]


def _files(ledger: Ledger) -> dict[str, str]:
    """Return the file that each watched bullet was found in first."""
    added = (event.data or {} for event in ledger.events(types=[ev.BULLET_ADDED]))
    return {str(data["name"]): str(data.get("origin")) for data in added if data.get("watched")}


def _like(line: Line, row: BulletRow) -> float:
    first, second = terms(same_words(row.text)), terms(same_words(line.text))
    return SequenceMatcher(None, first, second, autojunk=False).ratio()
