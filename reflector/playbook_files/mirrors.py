"""Keeps the playbook up to date in files that agents read on their own, such as CLAUDE.md and
AGENTS.md.

Invariant: a file is written only if it has our marks or if the user asked for them, and no byte
outside the marks changes. Without the section, the file is as it was before. An edit of the section
is recorded as events before the section is written again. If the edit cannot be determined, the
file stays as it is.

A mark is the whole registration: a file with a mark is kept up to date in every clone. It contains
the digest of the written text, by which the ledger finds the state that was edited. So an edit is
compared with that state, as for playbook.json. A mark begins its line, and no bullet does, so the
text of a bullet cannot end or begin a section. The section has no counters, so it changes with the
advice and not with each session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from reflector.changes.apply import advice_fault
from reflector.events.registry import ADVICE, RARE_TYPES, fold
from reflector.files import Changed, replace_read
from reflector.ledger.store import Ledger
from reflector.locate import AGENT_FILES
from reflector.mistakes import Mistake
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import Loaded
from reflector.playbook.names import SECTIONS, by_number
from reflector.playbook_files.admission import unfit
from reflector.playbook_files.edits import Base, EditedFile, take_in_turn
from reflector.playbook_files.git_versions import in_git
from reflector.playbook_files.kept_copies import content_digest, read_playbook
from reflector.playbook_files.playbook_json import checkpoint_of
from reflector.project import Project
from reflector.text.lazy import lazy_pattern

#: The maximum number of playbook changes since the state from which an edited section was written.
_MAX_CHANGES_SINCE = 50
_NEW_FILE = {
    ".cursor/rules/playbook.mdc": (b"---\ndescription: The playbook\nalwaysApply: true\n---\n")
}
_BEGIN = lazy_pattern(
    rb"(?m)^<!-- reflector:begin (?P<digest>[0-9a-f]{12})\+(?P<blank_lines>[0-9])[^>\r\n]*-->"
    rb"(?P<newline>\r?\n)"
)
_END = b"<!-- reflector:end -->"
_SAYS = (
    "The next lines are the playbook of reflector. Edit the rules in this file or with reflector."
)
_INTRO = "## Playbook\n\nWhen you use one of these bullets, cite it by its name in brackets."


class Mirror(NamedTuple):
    """A file with the playbook in it. `state` is current, behind, edited or unreadable; `trouble`
    is the reason.
    """

    name: str
    state: str
    trouble: str | None = None


class _Section(NamedTuple):
    """A file with the marks.

    marked  its section; None if it or its edit cannot be read
    fault   the reason
    edit    a change of the section that is not recorded yet
    """

    name: str
    marked: Marked | None
    fault: str = ""
    edit: EditedFile | None = None


def mirrors(ledger: Ledger, project: Project) -> list[Mirror]:
    """Return the files of a project that have the marks.

    Raises: LedgerError.
    """
    text = section_text(ledger.bullets())
    states: list[Mirror] = []
    for section in _sections(ledger, project):
        marked = section.marked
        if marked is None:
            states.append(Mirror(section.name, "unreadable", section.fault))
        elif marked.is_edited:
            states.append(Mirror(section.name, "edited"))
        else:
            is_current = marked.body == text
            states.append(Mirror(section.name, "current" if is_current else "behind"))
    return states


class Mirrors:
    """The marked sections of a project's files in one command or drain, which holds the lock.

    Each file is read once. It is read again right before it is written, so that no change in the
    meantime is lost.
    """

    def __init__(self, ledger: Ledger, project: Project) -> None:
        self._ledger = ledger
        self._project = project
        #: The sections that can be written, by the names of their files.
        self._sections: dict[str, Marked] = {}

    def take(self) -> list[str]:
        """Append the user's changes of the sections, each edit once. Return a note for each section
        that the user must correct.

        Raises: LedgerError.
        """
        notes = []
        for name, marked, fault, edit in _sections(self._ledger, self._project):
            if marked is None:
                notes.append(f"{name}: {fault}")
                continue
            if edit is not None:
                take_in_turn(self._ledger, edit, self._project.first_number)
            _remember(self._ledger, self._project, name, marked.body)
            self._sections[name] = marked
        return notes

    def write(self) -> list[str]:
        """Write the recorded sections that differ from the ledger. Return a note for each failure.

        Raises: LedgerError.
        """
        notes = []
        text = section_text(self._ledger.bullets()) if self._sections else ""
        for name, marked in self._sections.items():
            if marked.body == text and not marked.is_edited:
                continue
            try:
                _write(self._ledger, self._project, name, marked)
                self._sections[name] = marked._replace(body=text, digest=_mark(text))
            except Changed:
                continue  # the next command records the new edit, and then writes
            except (OSError, ValueError) as error:
                notes.append(f"{name}: {error}")
        return notes


def add_mirror(ledger: Ledger, project: Project, name: str) -> None:
    """Write the playbook into a file, which is created if it is missing.

    Raises: Mistake, Changed, OSError, LedgerError.
    """
    if not _files(project):
        raise Mistake(
            "`mirror` can copy only the playbook of a project; for any other playbook, use "
            "`reflector export`"
        )
    try:
        _write(ledger, project, agent_file_name(name))
    except Mistake:
        raise
    except ValueError as error:
        raise Mistake(f"{name}: {error}") from error


def remove_mirror(project: Project, name: str) -> bool:
    """Remove the section from a file, and return whether it had one. A file that was created for
    the section is removed.

    Raises: Mistake, Changed, OSError.
    """
    path = _path(project, agent_file_name(name))
    raw = read_playbook(path)
    try:
        rest = without_section(raw or b"")
    except ValueError as error:
        raise Mistake(f"{name}: {error}") from error
    if raw is None or rest == raw:
        return False
    was_made_for_it = rest == _NEW_FILE.get(name, b"")
    replace_read(path, raw, None if was_made_for_it else rest)
    return True


def agent_file_name(name: str) -> str:
    """Return the name of a file that agents read.

    Raises: Mistake for any other name.
    """
    plain = name.removeprefix("./")
    if plain not in AGENT_FILES:
        raise Mistake(
            f"agents do not load {name!r}; choose one of these files: {', '.join(AGENT_FILES)}"
        )
    return plain


def _sections(ledger: Ledger, project: Project) -> Iterator[_Section]:
    for name in _files(project):
        with suppress(OSError, Mistake):
            raw = read_playbook(_path(project, name)) or b""
            try:
                section = _section(ledger, project, name, raw)
            except ValueError as error:
                section = _Section(name, None, str(error))
            if section is not None:
                yield section


def _section(ledger: Ledger, project: Project, name: str, raw: bytes) -> _Section | None:
    """Return a file's section, with its edit if that was not read yet.

    Raises: ValueError if the marks or the edit cannot be read.
    """
    marked = find_section(raw)
    if marked is None:
        return None
    if not marked.is_edited or _is_remembered(ledger, project, name, marked.body):
        return _Section(name, marked)
    return _Section(name, marked, edit=_edit(ledger, project, name, marked))


def _files(project: Project) -> Sequence[str]:
    """Return the files that can contain a playbook; none for a user's playbook or a dataset's."""
    return AGENT_FILES if project.outer is None and not project.is_users else ()


def _path(project: Project, name: str) -> Path:
    """Return a file's path.

    Raises: Mistake if a part of the path is a symbolic link.
    """
    path = project.root
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise Mistake(
                f"{path.relative_to(project.root)} is a symbolic link; give the name of its target"
            )
    return path


def _write(ledger: Ledger, project: Project, name: str, instead_of: Marked | None = None) -> None:
    """Write a file's section.

    Raises: Changed if the section is not `instead_of` any more; OSError, ValueError, LedgerError.
    """
    path = _path(project, name)
    raw = read_playbook(path)
    if instead_of is not None:
        marked = find_section(raw or b"")
        if marked is None or (marked.body, marked.digest) != (instead_of.body, instead_of.digest):
            raise Changed(name)
    bullets = ledger.bullets()
    content = with_section(_NEW_FILE.get(name, b"") if raw is None else raw, bullets)
    replace_read(path, raw, content)
    _remember(ledger, project, name, section_text(bullets))


def _edit(ledger: Ledger, project: Project, name: str, marked: Marked) -> EditedFile:
    """Return the change of a section.

    Raises: ValueError if it cannot be recorded.
    """
    base = _base(ledger, marked.digest)
    if base is None:
        raise ValueError(
            "this file's copy of the playbook was edited, but this machine does not have the "
            "text before the edit. Make the edit in your playbook too, then write the copy "
            f"again: `reflector mirror {name}`"
        )
    loaded = _load(ledger, project, base, marked)
    fault = _fault(base, marked, loaded)
    if fault is not None:
        raise ValueError(
            f"reflector could not read this file's copy of the playbook: {fault}. Correct the "
            "copy between the two marker lines, and move other text below the copy. Or write the "
            f"copy again: `reflector mirror {name}`"
        )
    by_git = None  # the version of git, if it is an edit of the same section
    with suppress(ValueError):  # a version with unreadable marks is ignored
        version = in_git(project.root, name)
        section = find_section(version.content) if version is not None else None
        if section is not None and section.digest == marked.digest and section.is_edited:
            by_git = _load(ledger, project, base, section)
    return EditedFile(base, by_git, loaded, content_digest(marked.body))


def _fault(base: Base, marked: Marked, loaded: Loaded) -> object | None:
    """Return the first reason why an edited section cannot be recorded."""
    if base.bullets and not marked.body.strip():
        return "the copy does not contain a rule"
    texts = {bullet.text for bullet in base.bullets}
    new = [bullet for bullet in loaded.bullets if bullet.text not in texts]
    faults = [*loaded.problems, *loaded.notes, *unfit(new, advice_fault)]
    return faults[0] if faults else None


def _load(ledger: Ledger, project: Project, base: Base, section: Marked) -> Loaded:
    """Return the bullets of a section. `base` is the state of the playbook from which it was
    written.
    """
    from reflector.playbook.markdown import load_markdown

    # Its lines are numbered as in the file. Its introduction is not advice.
    body = "\n" * section.line + section.body.replace(_INTRO, "\n\n", 1)
    loaded = load_markdown(body, [row.name for row in ledger.rows()], project.first_number)
    # The section has each bullet on one line, without counters.
    texts = {(bullet.name, one_line(bullet.text)): bullet.text for bullet in base.bullets}
    bullets = tuple(
        replace(bullet, text=texts.get((bullet.name, bullet.text), bullet.text))
        for bullet in loaded.bullets
    )
    uncounted = frozenset(bullet.name for bullet in bullets)
    return replace(loaded, bullets=bullets, uncounted=uncounted)


def _is_remembered(ledger: Ledger, project: Project, name: str, body: str) -> bool:
    """Return whether a section is unchanged since it was last read or written.

    A read-only command leaves an edit in its file. Such an edit is not new any more, whatever
    happened to it since.
    """
    checkpoint = ledger.checkpoint(checkpoint_of(project, name))
    return checkpoint is not None and checkpoint[1] == content_digest(body)


def _remember(ledger: Ledger, project: Project, name: str, body: str) -> None:
    if not _is_remembered(ledger, project, name, body):
        position = ledger.head().position
        ledger.set_checkpoint(checkpoint_of(project, name), position, content_digest(body))


def _base(ledger: Ledger, mark: str) -> Base | None:
    """Return the newest state of the playbook from which a section was written; None if none of the
    last states has that mark.
    """
    events = list(ledger.events(types=RARE_TYPES))
    ends = [number for number, event in enumerate(events, start=1) if event.type in ADVICE]
    for end in reversed(ends[-_MAX_CHANGES_SINCE:]):
        live = fold(events[:end]).bullets()
        if _mark(section_text(live)) == mark:
            return Base(live, events[end - 1].position)
    return None


class Marked(NamedTuple):
    """A file with a marked section.

    before, after  the owner's bytes around the section
    body           the section's text, with newlines as the only line ends
    digest         of the section as it was written
    newline, end   the file's line end, and the line end after the last mark
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
        """Whether the section differs from the written one."""
        return _mark(self.body) != self.digest


def find_section(raw: bytes) -> Marked | None:
    """Return the marked section of a file; None if it has none.

    Raises: ValueError if its end is missing or a second section follows.
    """
    begin = _BEGIN.search(raw)
    if begin is None:
        return None
    # The search starts with the line break of the first mark, because a section may be empty.
    line_break = raw.find(b"\n" + _END, begin.end() - 1)
    if line_break < 0:
        raise ValueError(
            f"{_line(raw, begin)}: the line {_END.decode()}, which ends the copy, is missing "
            "after this line"
        )
    if second := _BEGIN.search(raw, begin.end()):
        raise ValueError(
            f"{_line(raw, second)}: a second copy of the playbook begins here, perhaps because of "
            "a conflict in git; remove one of the copies"
        )
    end = line_break + 1
    newline = begin["newline"]
    blank_bytes = len(newline) * int(begin["blank_lines"])
    tail = raw[end + len(_END) :]
    after = tail.removeprefix(newline)
    return Marked(
        before=raw[: begin.start() - blank_bytes],
        after=after,
        body=raw[begin.end() : end].decode("utf-8", "replace").replace("\r\n", "\n"),
        digest=begin["digest"].decode(),
        newline=newline,
        end=tail[: len(tail) - len(after)],
        line=raw.count(b"\n", 0, begin.end()),
    )


def with_section(raw: bytes, bullets: Iterable[Bullet]) -> bytes:
    """Return a file with the section written, in its place or at the end.

    Raises: ValueError as `find_section`.
    """
    section = find_section(raw)
    if section is None:
        newline = b"\r\n" if b"\r\n" in raw else b"\n"
        section = Marked(raw, b"", "", "", newline, newline)
    blank_lines = _blank_lines_after(section.before.replace(b"\r\n", b"\n"))
    body = section_text(bullets)
    head = f"<!-- reflector:begin {_mark(body)}+{blank_lines} {_SAYS} -->\n"
    text = ("\n" * blank_lines + head + body).encode().replace(b"\n", section.newline)
    return section.before + text + _END + section.end + section.after


def _blank_lines_after(before: bytes) -> int:
    """Return the number of line breaks that make a blank line before the section."""
    if not before or before.endswith(b"\n\n"):
        return 0
    return 1 if before.endswith(b"\n") else 2


def without_section(raw: bytes) -> bytes:
    """Return a file as it was before the section was written.

    Raises: ValueError as `find_section`.
    """
    section = find_section(raw)
    return raw if section is None else section.before + section.after


def section_text(bullets: Iterable[Bullet]) -> str:
    """Return the section between its marks: the bullets of each section in the order of their
    names, each on one line.
    """
    lines: dict[str, list[str]] = {slug: [] for slug in SECTIONS}
    for bullet in sorted(bullets, key=lambda bullet: by_number(bullet.name)):
        lines[bullet.section].append(f"- [{bullet.name}] {one_line(bullet.text)}")
    parts = [_INTRO]
    for slug, items in lines.items():
        if items:
            parts.append(f"### {SECTIONS[slug]}\n\n" + "\n".join(items))
    return "\n\n".join(parts) + "\n"


def one_line(text: str) -> str:
    """Return a bullet's text on one line, as in the section."""
    return " ".join(text.split())


def _mark(body: str) -> str:
    """Return the digest that identifies a section."""
    return content_digest(body)[:12]


def _line(raw: bytes, mark: re.Match[bytes]) -> str:
    return f"line {raw[: mark.start()].count(10) + 1}"
