"""The playbook in files that agents read by themselves, such as CLAUDE.md and AGENTS.md, kept in
step.

Invariant: a file is touched only where it has our marks, or where a person asked for them, and
nothing outside the marks is changed, not a byte: without the section the file is as it was before.
An edit of the section is taken in as events before it is written again. Where nobody can say what
was edited, the file stays as it is.

A mark is the whole registration: a file that has one is kept in step, in every clone. It holds the
digest of what was written, by which the ledger finds the state that was edited: an edit is compared
with that, as one of playbook.json is. A mark begins its line, which no bullet does, so what a
bullet says ends no section and begins none. The section has no counters: it changes when advice
does, not with each session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from reflector.changes.apply import advice_fault
from reflector.events.registry import ADVICE, RARE_TYPES, fold
from reflector.files import Changed, replace_read
from reflector.ledger.store import Ledger
from reflector.locate import AGENT_FILES
from reflector.mistakes import Mistake
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import Loaded
from reflector.playbook.markdown import load_markdown
from reflector.playbook.names import SECTIONS, by_number
from reflector.playbook_files.edits import Base, in_git, take_in_turn
from reflector.playbook_files.playbook_json import checkpoint_of, digest, read, unfit
from reflector.project import Project

#: How many changes of the playbook ago a section may have been written that somebody edits.
_MOST_TRIED: Final = 50
_NEW_FILE: Final = {
    ".cursor/rules/playbook.mdc": (b"---\ndescription: The playbook\nalwaysApply: true\n---\n")
}
_BEGIN: Final = re.compile(rb"(?m)^<!-- reflector:begin ([0-9a-f]{12})\+([0-9])[^>\r\n]*-->(\r?\n)")
_END: Final = b"<!-- reflector:end -->"
_SAYS: Final = "The next lines are the playbook, kept by reflector. Edit them here or there."
#: What `take_in_turn` takes of an edit.
_Edit = tuple[Base, Loaded | None, Loaded, str]
_INTRO: Final = "## Playbook\n\nWhen you use one of these bullets, cite it by its name in brackets."


class Mirror(NamedTuple):
    """A file with the playbook in it: `state` is current, behind, edited or unreadable, and
    `trouble` says why.
    """

    name: str
    state: str
    trouble: str | None = None


def mirrors(ledger: Ledger, project: Project) -> list[Mirror]:
    """Return the files of a project that have the marks. Raises LedgerError."""
    body = section_text(ledger.bullets())
    return [
        Mirror(name, "unreadable", found)
        if isinstance(found, str)
        else Mirror(
            name, "edited" if found.is_edited else "current" if found.body == body else "behind"
        )
        for name, found, _ in _found(ledger, project)
    ]


def take_mirrored(ledger: Ledger, project: Project) -> list[str]:
    """Append what people changed in the marked sections, each edit once; return what needs a
    person. Raises LedgerError.
    """
    notes = []
    for name, found, edit in _found(ledger, project):
        if isinstance(found, str):
            notes.append(f"{name}: {found}")
            continue
        if edit is not None:
            take_in_turn(ledger, *edit, project)
        _saw(ledger, project, name, found.body)
    return notes


def write_mirrored(ledger: Ledger, project: Project) -> list[str]:
    """Write the sections that say something else than the ledger; an edit that was not taken in is
    left. Return what went wrong. Raises LedgerError.
    """
    notes = []
    for name, found, edit in _found(ledger, project):
        if (
            isinstance(found, str)
            or edit
            or (not found.is_edited and found.body == section_text(ledger.bullets()))
        ):
            continue
        try:
            _write(ledger, project, name, found)
        # a person saved the file meanwhile: the next sync takes that in, and then writes
        except Changed:
            continue
        except (OSError, ValueError) as error:
            notes.append(f"{name}: {error}")
    return notes


def add_mirror(ledger: Ledger, project: Project, name: str) -> None:
    """Write the playbook into a file, which is made if it is missing. Raises Mistake, Changed,
    OSError, LedgerError.
    """
    if not _files(project):
        raise Mistake(
            "no file is kept in step with a playbook that is not a project's own; use "
            "`reflector export`"
        )
    try:
        _write(ledger, project, checked(name))
    except Mistake:
        raise
    except ValueError as error:
        raise Mistake(f"{name}: {error}") from error


def remove_mirror(project: Project, name: str) -> bool:
    """Take the section out of a file; return whether it had one. A file that was made for it goes.
    Raises Mistake, Changed, OSError.
    """
    path = _path(project, checked(name))
    raw = read(path)
    try:
        left = without_section(raw or b"")
    except ValueError as error:
        raise Mistake(f"{name}: {error}") from error
    if raw is None or left == raw:
        return False
    replace_read(path, raw, None if left == _NEW_FILE.get(name, b"") else left)
    return True


def checked(name: str) -> str:
    """Return the name of a file that agents read. Raises Mistake."""
    plain = name.removeprefix("./")
    if plain not in AGENT_FILES:
        raise Mistake(
            f"{name!r} is not a file that an agent reads by itself; the files are "
            f"{', '.join(AGENT_FILES)}"
        )
    return plain


def _found(ledger: Ledger, project: Project) -> Iterator[tuple[str, Marked | str, _Edit | None]]:
    """Yield each file that has the marks, with its section or what is wrong with it, and an edit
    that nobody read.
    """
    for name in _files(project):
        with suppress(OSError, Mistake):
            raw = read(_path(project, name)) or b""
            try:
                if (found := find(raw)) is not None:
                    is_news = found.is_edited and not _is_seen(ledger, project, name, found.body)
                    yield name, found, _edit(ledger, project, name, found) if is_news else None
            except ValueError as error:
                yield name, str(error), None


def _files(project: Project) -> Sequence[str]:
    return AGENT_FILES if project.outer is None and not project.is_users else ()


def _path(project: Project, name: str) -> Path:
    """Return a file's place. Raises Mistake where a link on the way leads out of the project."""
    path = project.root
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise Mistake(
                f"{path.relative_to(project.root)} is a link; name the file that it leads to"
            )
    return path


def _write(ledger: Ledger, project: Project, name: str, instead_of: Marked | None = None) -> None:
    """Write a file's section, in the place of one that was found. Raises Changed, OSError,
    ValueError, LedgerError.
    """
    path = _path(project, name)
    raw = read(path)
    if instead_of is not None and (raw is None or find(raw) != instead_of):
        raise Changed(name)
    bullets = ledger.bullets()
    replace_read(path, raw, with_section(_NEW_FILE.get(name, b"") if raw is None else raw, bullets))
    _saw(ledger, project, name, section_text(bullets))


def _edit(ledger: Ledger, project: Project, name: str, found: Marked) -> _Edit:
    """Return what was changed in a section. Raises ValueError for a change that cannot be taken
    in.
    """
    base = _base(ledger, found.digest)
    if base is None:
        raise ValueError(
            "its playbook was edited, and what it said before is not known here; make the change "
            "in the playbook, then "
            f"write the section again with `reflector install --mirror {name}`"
        )
    loaded = _read(ledger, project, base, found)
    said = {bullet.text for bullet in base.bullets}
    new = [bullet for bullet in loaded.bullets if bullet.text not in said]
    is_empty = base.bullets and not found.body.strip()
    if (
        faults := ["it is empty"]
        if is_empty
        else [*loaded.problems, *loaded.notes, *unfit(new, advice_fault)]
    ):
        raise ValueError(
            f"its playbook is left as it is: {faults[0]}. Correct it, move what is not a bullet "
            "out of the marks, or "
            f"write it from the ledger with `reflector install --mirror {name}`"
        )
    by_git = None
    with suppress(ValueError):  # a version whose marks nobody can read says nothing
        version = in_git(project.root, name)
        section = find(version.content) if version is not None else None
        if section is not None and section.digest == found.digest and section.is_edited:
            by_git = _read(ledger, project, base, section)
    return base, by_git, loaded, digest(found.body)


def _read(ledger: Ledger, project: Project, base: Base, section: Marked) -> Loaded:
    """Return the bullets of a section that was written from a state of the playbook."""
    # Its lines are numbered as in the file, and of what it says of itself nothing is advice.
    body = "\n" * section.line + section.body.replace(_INTRO, "\n\n", 1)
    loaded = load_markdown(body, [row.name for row in ledger.rows()], project.first_number)
    said = {bullet.name: bullet for bullet in base.bullets}
    # The section has each bullet on one line, and says nothing of its counters.
    bullets = [
        replace(bullet, text=said[bullet.name].text)
        if bullet.name in said and one_line(said[bullet.name].text) == bullet.text
        else bullet
        for bullet in loaded.bullets
    ]
    return replace(
        loaded, bullets=tuple(bullets), uncounted=frozenset(bullet.name for bullet in bullets)
    )


def _is_seen(ledger: Ledger, project: Project, name: str, body: str) -> bool:
    """Return whether a section says what it said when it was read or written last: an edit that is
    left in its file, as a question leaves it, is no news then, whatever became of it since.
    """
    return (ledger.checkpoint(checkpoint_of(project, name)) or (0, ""))[1] == digest(body)


def _saw(ledger: Ledger, project: Project, name: str, body: str) -> None:
    if not _is_seen(ledger, project, name, body):
        ledger.set_checkpoint(checkpoint_of(project, name), ledger.head().position, digest(body))


def _base(ledger: Ledger, mark: str) -> Base | None:
    """Return the newest state of the playbook that a section was written from, None where none
    of the last has it.
    """
    events = list(ledger.events(types=RARE_TYPES))
    ends = [number for number, event in enumerate(events, start=1) if event.type in ADVICE]
    for end in reversed(ends[-_MOST_TRIED:]):
        live = fold(events[:end]).bullets()
        if _mark(section_text(live)) == mark:
            return Base(live, events[end - 1].position)
    return None


class Marked(NamedTuple):
    """A file with a marked section.

    before, after  bytes of the file's owner
    body           what the section says, its lines ended by newlines alone
    digest         of the section as it was written
    newline, end   how lines end, and what ends the last mark's
    line           of the mark that begins it
    """

    before: bytes
    after: bytes
    body: str
    digest: str
    newline: bytes
    end: bytes
    line: int = 0

    @property
    def is_edited(self) -> bool:
        """Whether the section differs from what was written."""
        return _mark(self.body) != self.digest


def find(raw: bytes) -> Marked | None:
    """Return the marked section of a file; None if it has none. Raises ValueError where its end is
    missing or a second one follows.
    """
    begin = _BEGIN.search(raw)
    if begin is None:
        return None
    end = raw.find(b"\n" + _END, begin.end() - 1) + 1
    if not end:
        raise ValueError(f"{_line(raw, begin)}: the mark {_END.decode()} is missing behind it")
    if again := _BEGIN.search(raw, begin.end()):
        raise ValueError(
            f"{_line(raw, again)}: a second playbook begins, as git leaves it in a "
            "conflict; keep either"
        )
    lead = len(begin[3]) * int(begin[2])
    body = raw[begin.end() : end].decode("utf-8", "replace").replace("\r\n", "\n")
    tail = raw[end + len(_END) :]
    after = tail.removeprefix(begin[3])
    before, end_ = raw[: begin.start() - lead], tail[: len(tail) - len(after)]
    return Marked(
        before, after, body, begin[1].decode(), begin[3], end_, raw.count(b"\n", 0, begin.end())
    )


def with_section(raw: bytes, bullets: Iterable[Bullet]) -> bytes:
    """Return a file with the section written, in its place or at the end. Raises ValueError as
    `find` does.
    """
    there = find(raw)
    if there is None:
        newline = b"\r\n" if b"\r\n" in raw else b"\n"
        there = Marked(raw, b"", "", "", newline, newline)
    before = there.before.replace(b"\r\n", b"\n")
    # A blank line before the section.
    lead = 0 if not before or before.endswith(b"\n\n") else 1 if before.endswith(b"\n") else 2
    body = section_text(bullets)
    head = f"<!-- reflector:begin {_mark(body)}+{lead} {_SAYS} -->\n"
    text = ("\n" * lead + head + body).encode().replace(b"\n", there.newline)
    return there.before + text + _END + there.end + there.after


def without_section(raw: bytes) -> bytes:
    """Return a file as it was before the section was written. Raises ValueError as `find` does."""
    there = find(raw)
    return raw if there is None else there.before + there.after


def section_text(bullets: Iterable[Bullet]) -> str:
    """Return the section between its marks: bullets by section, in the order of their names,
    each on one line.
    """
    lines: dict[str, list[str]] = {slug: [] for slug in SECTIONS}
    for bullet in sorted(bullets, key=lambda one: by_number(one.name)):
        lines[bullet.section].append(f"- [{bullet.name}] {one_line(bullet.text)}")
    parts = [
        f"### {SECTIONS[slug]}\n\n" + "\n".join(found) for slug, found in lines.items() if found
    ]
    return "\n\n".join([_INTRO, *parts]) + "\n"


def one_line(text: str) -> str:
    """Return a bullet's text as the section has it."""
    return " ".join(text.split())


def _mark(body: str) -> str:
    """Return what a section is known by."""
    return digest(body)[:12]


def _line(raw: bytes, found: re.Match[bytes]) -> str:
    return f"line {raw[: found.start()].count(10) + 1}"
