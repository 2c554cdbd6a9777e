"""The advice that a user's agents load in a project, line by line, and these lines as watched
bullets: judged and listed, but neither written to playbook.json nor shown to an agent.

Invariant: nothing in a repository leads outside it. A file of the project is read only inside the
project. An import (`@docs/style.md`) is followed below the project and below the user's own agent
folders, and otherwise only named. A file that the user names is read wherever it is. No file is
written.

The same text is the same bullet in every file, and a text of the playbook is the playbook's bullet.
A reworded line keeps its name and its evidence. A line that disappears is removed, and watched
again when it comes back. This module never makes a bullet live: that is the task of `adopt`.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import groupby, islice, product
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from reflector.changes.apply import advice_fault, bullet_event
from reflector.events import event as ev
from reflector.files import expanded, read_bounded
from reflector.instructions.kind import Kind
from reflector.ledger.store import BulletRow, Ledger
from reflector.locate import AGENT_FILES, agent_folder, agent_folders
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import Loaded
from reflector.playbook.names import Names, is_name
from reflector.text.lazy import lazy_pattern
from reflector.text.words import context_tokens, terms, words_of
from reflector.transcripts.building import Loads
from reflector.transcripts.readers import readers_in_use

ACTOR = "check"
#: Used instead of a file, for a rule of the playbook that is in no file of the project.
PLAYBOOK = "playbook"
#: The minimum share of words in the same order for a text to be a rewording of another one.
_LEAST_LIKENESS = 0.6
_MAX_BYTES = 1 << 20
#: The maximum depth of imports in a file that the user names.
_MAX_HOPS = 5
#: An import as in Claude Code 2.1.332: a space in a name is escaped. In a sentence, `_PUNCTUATION`
#: may follow a name.
_IMPORT = lazy_pattern(r"(?:^|(?<=\s))@((?:[^\s\\\0]|\\ )+)", re.M)
_PUNCTUATION = ".,;:!?)]}'\"`*_。，、；：！？）」"
#: The front matter of a rule, and the part of it that limits the rule to some files.
_FRONT_MATTER = lazy_pattern(r"\A---\r?\n(.*?)\n---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SCOPE = lazy_pattern(
    r"^(?:paths|globs|applyTo):[ \t]*(\S.*|(?:\r?\n[ \t]*-[ \t].*)+)",
    re.MULTILINE,
)
#: Folders that do not contain advice, and the maximum number of folders to search.
_NO_ADVICE = frozenset(("node_modules", "vendor", "target", "dist", "build", "__pycache__"))
_MAX_FOLDERS = 5_000
#: The form of a name in front of advice, perhaps with the counters of a playbook.
_NAMED = lazy_pattern(
    r"\[([\w.-]{1,64})\] (?:helpful=\d+ harmful=\d+(?: neutral=\d+)? :: )?(.+)", re.DOTALL
)
_CODE = lazy_pattern(r"^[ \t>]*(```|~~~).*?^[ \t>]*\1|`[^`\n]*`", re.M | re.S)


class Line(NamedTuple):
    """One unit of a file: a rule, a fact or a command.

    name     the name in the file; None without one
    heading  the nearest heading above it, "" for none
    lead_in  the words that introduce it, "" for none
    added_at  for a rule of the playbook, the time at which it was written there; "" if it came
              from a file
    scope     the patterns of files at which an agent loads it; none if it loads it at each start
    """

    file: str
    number: int
    section: str
    text: str
    name: str | None = None
    kind: Kind = Kind.RULE
    heading: str = ""
    lead_in: str = ""
    added_at: str = ""
    scope: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """FILE:LINE, or the name of a rule of the playbook."""
        name = self.name if self.file == PLAYBOOK else None
        return name or f"{self.file}:{self.number}"

    @property
    def is_rule(self) -> bool:
        return self.kind == Kind.RULE

    @property
    def titles(self) -> tuple[str, str]:
        """The words that introduce it: its lead-in and its heading."""
        return self.lead_in, self.heading


class Advice(NamedTuple):
    """The advice of a project's files.

    lines     each unit, in the order of the files
    files     the number of tokens of each file
    scopes    the patterns of a file that agents only load for matching files
    imports   the files that a file imports
    omitted   the omitted rules, files and imports, with reasons
    clients   the names of the agents that load a file
    """

    lines: tuple[Line, ...]
    files: Mapping[str, int]
    scopes: Mapping[str, tuple[str, ...]]
    imports: Mapping[str, tuple[str, ...]]
    omitted: tuple[str, ...]
    clients: Mapping[str, tuple[str, ...]]

    @property
    def rules(self) -> tuple[Line, ...]:
        """The lines that an agent can follow or break."""
        return tuple(line for line in self.lines if line.is_rule)


def advice_of(root: Path, named: Sequence[Path] = ()) -> Advice:
    """Return the advice of the files that the user names. Without any, return `loaded_advice` with
    notes on the files that agents load elsewhere.

    Raises:
        OSError: a named file cannot be read.
    """
    advice = loaded_advice(root, named)
    return advice if named else advice._replace(omitted=(*advice.omitted, *_elsewhere(root)))


def loaded_advice(root: Path, named: Sequence[Path] = ()) -> Advice:
    """Return the advice of the files that the user's agents load in a project, without duplicate
    texts.

    named  files to read instead

    Raises:
        OSError: a named file cannot be read.
    """
    lines: dict[str, Line] = {}
    files: dict[str, int] = {}
    scopes: dict[str, tuple[str, ...]] = {}
    imports: dict[str, tuple[str, ...]] = {}
    clients: dict[str, tuple[str, ...]] = {}
    omitted: list[str] = []
    unread: list[str] = []
    for file in _files_of(root, named, unread):
        text = file.raw.decode("utf-8-sig", "replace")
        files[file.shown] = context_tokens(_without_comments(text))
        if scope := scope_of(text) or _folder_of(file):
            scopes[file.shown] = scope
        if file.imports:
            imports[file.shown] = tuple(file.imports.values())
        if file.clients:
            clients[file.shown] = file.clients
        omitted += _add_lines(lines, file, text, scope)
    return Advice(tuple(lines.values()), files, scopes, imports, (*omitted, *unread), clients)


def rules_in_files(root: Path) -> list[str]:
    """Return the texts of the rules in the files that the user's agents load in a project."""
    return [line.text for line in loaded_advice(root).rules]


def advice_digest(root: Path) -> str:
    """Return the SHA-256 over the files that agents load in a project. It changes when their advice
    changes.
    """
    digest = sha256()
    for file in _files_of(root, (), []):
        digest.update(b"%s\0%d\0%s" % (os.fsencode(file.shown), len(file.raw), file.raw))
    return digest.hexdigest()


def lines_in(file: str, text: str) -> Iterator[Line]:
    """Yield the units of a file's text as lines."""
    from reflector.instructions.units import units_of
    from reflector.playbook.markdown import section_meant

    for unit in units_of(text):
        section = section_meant(unit.heading) or "oth"
        name = _NAMED.fullmatch(unit.text)
        line = Line(file, unit.number, section, unit.text, None, *unit[2:])
        if name is not None and is_name(name[1]):
            line = line._replace(name=name[1], text=name[2], kind=Kind.RULE)
        yield line


def _folder_of(file: _File) -> tuple[str, ...]:
    """Return the pattern of a folder of the project, if agents load a named file only there."""
    folder, _, name = file.shown.rpartition("/")
    is_elsewhere = file.clients or not _may_hold_advice(folder or ".")
    is_nested = not is_elsewhere and not folder.startswith("/") and name in AGENT_FILES
    return (f"{folder}/",) if is_nested else ()


def _add_lines(
    lines: dict[str, Line], file: _File, text: str, scope: tuple[str, ...]
) -> Iterator[str]:
    """Add the lines of a file to the earlier ones, by their words. Yield the reason for each
    omission.
    """
    for unit in lines_in(file.shown, text):
        is_import = unit.text[:1] == "@" and unit.text[1:] in file.imports
        if is_import:
            continue
        line = unit._replace(scope=scope)
        if fault := advice_fault(line.text):
            yield f"{file.shown}: line {line.number}: {fault}"
            continue
        first = lines.setdefault(same_words(line.text), line)
        is_repeated = first is not line and first.file == file.shown
        if is_repeated and line.kind == Kind.RULE:
            yield f"{file.shown}: line {line.number} repeats line {first.number}"


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, str]:
    """Return the bullets that no trial can withhold, because an agent loads a file with their text
    automatically. The result has that file by the bullet's name.

    The user's own CLAUDE.md counts, too. A file has the text if it contains all words of the bullet
    in a row, with anything but words between them.
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


def loaded_files(root: Path) -> list[Path]:
    """Return the files that agents load automatically in a project, with the files that these
    import.
    """
    return [root / file.shown for file in _files_of(root, (), [])]


class _File(NamedTuple):
    """A file of advice, with its displayed path and the agents that load it.

    imports  the displayed paths of the files that it imports, by the names in its text
    """

    shown: str
    raw: bytes
    clients: tuple[str, ...]
    imports: Mapping[str, str]


class _Wanted(NamedTuple):
    """A file to read.

    hops      how many levels of imports may still be followed from it
    importer  the displayed path of the file that imports it; "" for none
    clients   the agents that load it; none if the user named it
    """

    path: Path
    hops: int
    importer: str = ""
    clients: tuple[str, ...] = ()


def _files_of(root: Path, named: Sequence[Path], unread: list[str]) -> Iterator[_File]:
    """Yield each file and the files that it imports, without duplicates. Add a note to `unread` for
    each file that is not read.

    Raises:
        OSError: a named file cannot be read.
    """
    project = root.resolve()
    allowed = [project, *(Path(folder).resolve() for folder in agent_folders())]
    seen: set[Path] = set()
    queue = deque(_Wanted(path.absolute(), _MAX_HOPS) for path in named)
    replaced: Mapping[Path, str] = {}
    if not named:
        loaded, replaced = _loaded(root)
        queue.extend(loaded)
    while queue:
        wanted = queue.popleft()
        path = wanted.path.resolve()
        if path in seen:
            continue
        shown = _shown(wanted.path, root)
        is_named = not wanted.importer and not wanted.clients
        folders = allowed if wanted.importer else [project]
        if not is_named and not any(map(path.is_relative_to, folders)):
            unread.append(_outside_note(wanted, shown))
            continue
        try:
            raw = read_bounded(path, _MAX_BYTES)
        except OSError as error:
            if is_named:
                raise
            unread.append(_unread_note(wanted, shown, error))
            continue
        seen.add(path)
        imports = dict(_imports(wanted.path, raw.decode("utf-8", "replace")))
        targets = imports.values()
        names = {name: _shown(target, root) for name, target in imports.items()}
        yield _File(shown, raw, wanted.clients, names)
        if wanted.hops:
            queue.extend(
                _Wanted(target, wanted.hops - 1, shown, wanted.clients) for target in targets
            )
        elif wanted.clients:
            unread.extend(
                _not_followed_note(wanted, _shown(target, root), shown) for target in targets
            )
    unread.extend(
        f"not read: {_shown(path, root)}, because {why}"
        for path, why in sorted(replaced.items())
        if path.resolve() not in seen
    )


def _loaded(root: Path) -> tuple[list[_Wanted], dict[Path, str]]:
    """Return the files that the user's agents load in a project; and the reason for each file that
    an agent replaces by another one. A file of the second kind may still be imported.
    """
    wanted: dict[Path, _Wanted] = {}
    replaced: dict[Path, str] = {}
    for reader in readers_in_use():
        for load in reader.loads.project:
            replacement = load.replacement_in(root)
            for path in load.files_in(root):
                if replacement:
                    replaced[path] = f"{reader.name} loads {replacement} instead"
                    continue
                before = wanted.get(path, _Wanted(path, 0))
                hops = max(before.hops, reader.loads.imports)
                wanted[path] = _Wanted(path, hops, "", (*before.clients, reader.name))
    unloaded = replaced.keys() - wanted.keys()
    return list(wanted.values()), {path: replaced[path] for path in unloaded}


def _outside_note(wanted: _Wanted, shown: str) -> str:
    if not wanted.importer:
        return f"not read: {shown}, because this link points outside the project"
    return f"not read: @{shown} in {wanted.importer}, because that file is outside the project"


def _not_followed_note(importer: _Wanted, target: str, shown: str) -> str:
    names = " and ".join(importer.clients)
    verb = "does" if len(importer.clients) == 1 else "do"
    return f"not read: @{target} in {shown}, because {names} {verb} not read imported files"


def _unread_note(wanted: _Wanted, shown: str, error: OSError) -> str:
    if not wanted.importer:
        return f"not read: {shown}: {error.strerror}"
    return f"not read: @{shown} in {wanted.importer}: {error.strerror}"


def _imports(path: Path, text: str) -> Iterator[tuple[str, Path]]:
    """Yield the imports of a file: each name as it is written, and the file that it names.

    A missing file also counts, so that it is reported. Then its name must have an extension,
    because `@alice` may be a user name.
    """
    for written in dict.fromkeys(_IMPORT.findall(_CODE.sub("", text))):
        name = written.partition("#")[0].replace("\\ ", " ")  # @my\ rules.md#heading
        unpunctuated = name.rstrip(_PUNCTUATION)
        target = _existing(path.parent, name) or _existing(path.parent, unpunctuated)
        has_extension = "." in unpunctuated.rpartition("/")[2][1:-1]
        if target is not None:
            yield written, target
        elif has_extension:
            yield written, path.parent / expanded(unpunctuated)


def _existing(folder: Path, name: str) -> Path | None:
    """Return the file of a name in a folder, or below a home folder; None if there is none."""
    with suppress(OSError, ValueError):  # too long, or with a NUL
        target = folder / expanded(name)
        return target if target.is_file() else None
    return None


def _elsewhere(root: Path) -> Iterator[str]:
    """Yield notes on files that agents also load but that are not read: those of sub-folders, those
    above the project, and the user's own.
    """
    loads = [reader.loads for reader in readers_in_use()]
    for _, shown in groupby(_nested_files(root, loads), lambda shown: shown.partition("/")[0]):
        yield _nested_note([*shown])
    with suppress(OSError):
        for path, where in _outside_files(root, loads).items():
            if not path.resolve().is_relative_to(root.resolve()):
                see = f"to check this file: reflector check {quote(str(path))}"
                yield f"not read: {path}, which agents load in {where}; {see}"


def _nested_note(shown: Sequence[str]) -> str:
    """Return the note on the files of one folder of the project."""
    is_one = len(shown) == 1
    files, folder = ("this file", "its folder") if is_one else ("each file", "the file's folder")
    one = "this file" if is_one else "the first file"
    return (
        f"not read: {', '.join(shown)}, because agents load {files} only when they work in "
        f"{folder}; to check {one}: reflector check {quote(shown[0])}"
    )


def _nested_files(root: Path, loads: Sequence[Loads]) -> list[str]:
    """Return the displayed paths of the files of sub-folders in their order, without links to
    them.
    """
    nested = {load.pattern for each in loads for load in each.project if "/" not in load.pattern}
    found: dict[Path, Path] = {}
    for folder, folders, names in islice(os.walk(root), _MAX_FOLDERS):
        folders[:] = sorted(name for name in folders if _may_hold_advice(name))
        for name in nested.intersection(names) if Path(folder) != root else ():
            path = Path(folder) / name
            if not path.is_symlink() or path.resolve() not in found:
                found[path.resolve()] = path
    return sorted(_shown(path, root) for path in found.values())


def _outside_files(root: Path, loads: Sequence[Loads]) -> dict[Path, str]:
    """Return the files above the project and the user's own, each with the projects that load
    it.
    """
    outside: dict[Path, str] = {}
    for folder, each in product(root.resolve().parents, loads):
        patterns = [load.pattern for load in each.project if each.above and "*" not in load.pattern]
        files = (folder / pattern for pattern in patterns)
        outside |= {path: "each project below this folder" for path in files if path.is_file()}
    return outside | {path: "every project" for each in loads for path in each.users_files()}


def _may_hold_advice(folder: str) -> bool:
    return folder not in _NO_ADVICE and not folder.startswith(".")


def scope_of(text: str) -> tuple[str, ...]:
    """Return the patterns of the files for which an agent loads a rule; none for a rule that is
    loaded at each start.
    """
    front_matter = _FRONT_MATTER.match(text)
    scope = _SCOPE.search(front_matter[1]) if front_matter else None
    if scope is None:
        return ()
    patterns = [pattern.strip(" \t\"'[]-") for pattern in re.split(r",(?![^{\n]*\})|\n", scope[1])]
    if not {"**", "**/*"}.isdisjoint(patterns):
        return ()
    return tuple(filter(None, patterns))


def _without_comments(text: str) -> str:
    """Return a text without its HTML comments, because agents do not get these."""
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
    """The lines by the names of their bullets, and the changes that lead to this state, each with
    its file.
    """

    lines: dict[str, Line]
    changes: list[tuple[Change, str]]


def watch(ledger: Ledger, watching: Watching, actor: str = ACTOR) -> None:
    """Record the changes. The playbook's lock must be held.

    Raises: LedgerError.
    """
    tx = ledger.draw()
    ledger.append(
        [
            bullet_event(
                change,
                tx,
                index,
                actor=actor,
                origin=file,
                reason=f"gone from {file}",
                more=_facts(change, watching.lines),
            )
            for index, (change, file) in enumerate(watching.changes)
        ],
        tx=tx,
    )


def _facts(change: Change, lines: Mapping[str, Line]) -> dict[str, object]:
    """Return the other fields of a line's event, besides its change."""
    line = lines.get(change.name or "")
    if change.kind == "restore":
        return {"watched": True, "origin": line.file if line else ""}
    if change.kind != "add":
        return {}
    return {"watched": True, "heading": line.heading if line else ""}


def watching(ledger: Ledger, lines: Sequence[Line], *, first: int = 0) -> Watching:
    """Return the result of watching these lines. `first` is the lowest number of a new name.

    Raises: LedgerError.
    """
    rows = ledger.rows_by_name()
    file_of = files_of(ledger)
    lines_by_name, new = matched(rows, lines)
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


def playbook_lines(ledger: Ledger, lines: Sequence[Line], *, first: int = 0) -> list[Line]:
    """Return the rules of the playbook that are not in these lines of files. `first` is as for
    `watching`.

    Raises: LedgerError.
    """
    in_files = watching(ledger, lines, first=first).lines
    live = [row for row in ledger.rows() if row.status == "live"]
    added_at = {
        str(event.data["name"]): event.occurred_at
        for event in ledger.events(types=[ev.BULLET_ADDED])
        if event.data and event.actor != ev.IMPORT
    }
    return [
        Line(
            *(PLAYBOOK, index, row.section, row.text, row.name),
            added_at=added_at.get(row.name, ""),
        )
        for index, row in enumerate(live, start=1)
        if row.name not in in_files
    ]


def watched_lines(ledger: Ledger) -> list[Line]:
    """Return the last seen lines of watched files, with the names of their bullets.

    Raises: LedgerError.
    """
    rows = _watched(ledger.rows())
    file_of = files_of(ledger) if rows else {}
    return [Line(file_of.get(row.name, ""), 0, row.section, row.text, row.name) for row in rows]


def _watched(rows: Iterable[BulletRow]) -> list[BulletRow]:
    return [row for row in rows if row.status == "watched"]


def matched(
    rows: Mapping[str, BulletRow], lines: Sequence[Line]
) -> tuple[dict[str, Line], list[Line]]:
    """Return the lines of known bullets by their names, and the new lines.

    If several bullets have the same words, a live one has priority, and a removed one comes last.
    """
    order = {"removed": 0, "live": 2}
    by_status = sorted(rows.values(), key=lambda row: order.get(row.status, 1))
    names = {same_words(row.text): row.name for row in by_status}
    lines_by_name: dict[str, Line] = {}
    new: list[Line] = []
    for line in lines:
        introduced = names.get(same_words(f"{line.lead_in} {line.text}"), "")
        row = rows.get(line.name or "") or rows.get(names.get(same_words(line.text), introduced))
        if row is None or row.status == "merged":
            new.append(line)
        else:
            lines_by_name.setdefault(row.name, line)
    return lines_by_name, new


def _reworded(line: Line, rows: Sequence[BulletRow]) -> BulletRow | None:
    """Return the bullet that a line rewords; None if none is near enough."""
    nearest = max(rows, key=partial(_like, line), default=None)
    if nearest is None or _like(line, nearest) < _LEAST_LIKENESS:
        return None
    return nearest


def adopting(ledger: Ledger, loaded: Loaded, raw: bytes) -> tuple[Loaded, list[Change]]:
    """Return a file without its watched rules, and the changes that move these into the playbook.

    A line that is a part of a bullet of the file, such as one step, stays watched.

    Raises: LedgerError.
    """
    from reflector.playbook.markdown import is_markdown

    bullets = {same_words(bullet.text) for bullet in loaded.bullets}
    lines = lines_in("", raw.decode("utf-8", "replace")) if is_markdown(raw) else ()
    rules = {same_words(line.text) for line in lines if line.kind == Kind.RULE}
    parts = {text for text in rules if any(text in bullet for bullet in bullets)}
    watched = {row.name: same_words(row.text) for row in _watched(ledger.rows())}
    texts = bullets | (rules - parts)
    adopted = {name: text for name, text in watched.items() if text in texts}
    rest = tuple(b for b in loaded.bullets if same_words(b.text) not in adopted.values())
    return replace(loaded, bullets=rest), [Change("restore", name) for name in adopted]


def files_of(ledger: Ledger) -> dict[str, str]:
    """Return the file in which each watched bullet was last found as a new line or as a restored
    one.
    """
    events = ledger.events(types=[ev.BULLET_ADDED, ev.BULLET_RESTORED])
    found = [event.data for event in events if event.data and event.data.get("watched")]
    return {str(data["name"]): str(data["origin"]) for data in found if data.get("origin")}


def _like(line: Line, row: BulletRow) -> float:
    return likeness(row.text, line.text)


def likeness(before: str, after: str) -> float:
    """Return the share of words that two texts have in common, in the same order."""
    from difflib import SequenceMatcher

    words_before = terms(same_words(before))
    words_after = terms(same_words(after))
    return SequenceMatcher(None, words_before, words_after, autojunk=False).ratio()
