"""Edits of playbook.json, as events: by a person in the file, and by others through git, where
several clones share it.

Invariant: an edit is appended once, however often its file is read before it is written again, and
whenever an edited file comes back: what the ledger says already, or took in since the file was
written, is not an event. Counts that came since stay. What git brought is credited to git, and no
count is taken from it: a shared file holds the advice, each clone's ledger its counts, and evidence
follows the advice that it is about. A version from git says nothing about bullets that its branch
never had: it was made before them, or beside them. So another branch that is checked out neither
removes nor rewords what the ledger learned elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from reflector.changes.apply import bullet_event, is_taken, of_file, of_new
from reflector.changes.erase import returning_texts
from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.events.state import REDACTED
from reflector.files import read_bounded
from reflector.git import git_says
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import CHANGE_EVENTS, Change, added
from reflector.playbook.document import Loaded, entry_text
from reflector.playbook.names import Names
from reflector.project import Project

#: The actor of what came through git.
GIT: Final = "git"
#: The line of `.claude/.gitattributes` that says so. It is committed, so it holds in every clone.
ATTRIBUTES: Final = "playbook.json merge=reflector"
_PATH: Final = ".claude/playbook.json"
_MOST_ATTRIBUTES: Final = 1 << 20
_Entry = tuple[bytes, bytes]


class Base(NamedTuple):
    """What a file was edited from: a ledger's bullets, and the position at which they stood so."""

    bullets: Sequence[Bullet]
    position: int


def take_in_turn(
    ledger: Ledger, base: Base, by_git: Loaded | None, loaded: Loaded, digest: str, project: Project
) -> int:
    """Append what git changed in a file, and then what a person changed in that; how many events
    both gave.

    Of a file that differs less from its `base` than from git's version, that one says nothing.
    """
    first = project.first_number
    if by_git is None or len(loaded.edits_of(by_git.bullets)) > len(loaded.edits_of(base.bullets)):
        return _take_edits(ledger, base, loaded, digest, first)
    uncounted = frozenset(bullet.name for bullet in by_git.bullets)
    bullets = tuple(replace(bullet, helpful=0, harmful=0) for bullet in by_git.bullets)
    edits = _take_edits(
        ledger, base, replace(by_git, bullets=bullets, uncounted=uncounted), digest, first, GIT
    )
    then = Base(
        [bullet for bullet in by_git.bullets if ledger.row(bullet.name) is not None], base.position
    )
    return edits + _take_edits(ledger, then, loaded, digest, first)


def _take_edits(
    ledger: Ledger, base: Base, loaded: Loaded, digest: str, first: int, actor: str = ev.HUMAN
) -> int:
    """Append what somebody changed in a file, on top of what the ledger counted meanwhile; how
    many events it gave.
    """
    loaded = _recognised(base.bullets, loaded)
    edits = loaded.edits_of(base.bullets)
    # An older export that came back (another branch checked out) holds texts that were erased
    # since.
    erased = {bullet.name for bullet in base.bullets if bullet.text == REDACTED}
    revised = {edit.name or "": edit.text or "" for edit in edits if edit.kind == "revise"}
    texts = {name: text for name, text in revised.items() if name in erased}
    back = returning_texts(ledger, base.position, texts) if texts else set()
    rows = {row.name: row for row in ledger.rows()}
    edits = merges_undone(edits, rows)
    gone = {name: row for name, row in rows.items() if row.status != "live" and name not in back}
    sections = {bullet.name: bullet.section for bullet in loaded.bullets}
    # A bullet that was reworded in an older file comes back: no session gets the words of a removed
    # one.
    edits = [
        added(replace(come_back(gone[name], name), section=sections[name], text=revised[name]))
        if edit.kind == "revise" and (name := edit.name or "") in gone
        else edit
        for edit in edits
    ]
    # A process that read the same edit before, and did not write the file, has added these.
    since = (row for row in rows.values() if row.position > base.position and row.status == "live")
    said_since = {(row.section, row.text) for row in since}
    names = Names(rows, first)
    content = digest if actor == ev.HUMAN else f"{digest} {actor}"
    taken = [
        (event.type, event.data)
        for event in ledger.events(after=base.position, types=CHANGE_EVENTS)
    ]
    events: list[NewEvent] = []
    for edit in edits:
        known = rows.get(edit.name or "")
        if edit.kind == "add":
            section = edit.section or ""
            if (section, edit.text) in said_since or (
                known is not None and not is_taken(known, edit)
            ):
                continue
            name = names.give(edit.name, section)
            change = replace(edit, name=name)
            if known is not None and is_older(known, edit):  # a removal that was undone
                change = added(come_back(known, name))
            events.append(_added(change, actor))
        elif (
            known is not None
            and not is_so(known, edit)
            and not (edit.kind == "revise" and edit.name in back)
        ):
            event = bullet_event(edit, *of_file(content, base.position, edit), actor=actor)
            if (event.type, event.data) not in taken:
                events.append(event)
    ledger.append(events, tx=ledger.draw() if events else None)
    return len(events)


def in_names_of(ledger: Ledger, before: Loaded, after: Loaded) -> tuple[list[Bullet], Loaded]:
    """Two versions of a file with the ledger's names for entries that it took in under others,
    because a removed bullet had theirs or they had none: the bullets of the one, and the other.
    """
    rows = {row.name: row for row in ledger.rows()}
    live = {name: row for name, row in rows.items() if row.status == "live"}
    own = {bullet.name for bullet in before.bullets}
    said = _by_words(row.bullet for name, row in live.items() if name not in own)
    names = {b.name: b.name if b.name in live else _next(said, b) for b in before.bullets}
    bullets = [replace(bullet, name=names[bullet.name]) for bullet in before.bullets]
    there = {bullet.name for bullet in after.bullets}
    given = {
        old: new for old, new in names.items() if old not in after.named_here and new not in there
    }
    return [bullet for bullet in bullets if bullet.name in rows], _renamed(after, given)


def renamed(ledger: Ledger, loaded: Loaded) -> dict[str, str]:
    """Return the names that the ledger gave to live bullets of a file, by those in the file,
    where they differ.
    """
    rows = {row.name: row for row in ledger.rows() if row.status == "live"}
    said = _by_words(row.bullet for row in rows.values())
    strange = [b for b in loaded.bullets if b.name not in rows and b.name not in loaded.named_here]
    return {bullet.name: name for bullet in strange if (name := _next(said, bullet)) != bullet.name}


def under_free_names(ledger: Ledger, loaded: Loaded, first: int) -> Loaded:
    """Return a file whose bullets have the next names where theirs mean other bullets in the
    ledger.
    """
    rows = {row.name: row for row in ledger.rows()}
    names = Names([*rows, *(bullet.name for bullet in loaded.bullets)], first)
    taken = (b for b in loaded.bullets if b.name in rows and is_taken(rows[b.name], b))
    return _renamed(loaded, {bullet.name: names.next(bullet.section) for bullet in taken})


def is_older(row: BulletRow, edit: Change) -> bool:
    """Return whether the name is that of a removed bullet that said the same."""
    return row.status != "live" and (row.section, row.text) == (edit.section, edit.text)


def come_back(row: BulletRow, name: str) -> Bullet:
    """Return a bullet that is not live any more under a new name, with what was counted for it,
    unless that counts for the bullet that it was merged into.
    """
    bullet = replace(row.bullet, name=name)
    return replace(bullet, helpful=0, harmful=0) if row.status == "merged" else bullet


def merges_undone(edits: Iterable[Change], rows: Mapping[str, BulletRow]) -> list[Change]:
    """Return the edits, with one that undoes a merge in place of those that put all its sources
    back and remove it.
    """
    edits = list(edits)
    adds = {edit.name or "": edit for edit in edits if edit.kind == "add"}
    back = {name for name, edit in adds.items() if name in rows and is_older(rows[name], edit)}
    sources: dict[str | None, set[str]] = {}
    for row in rows.values():
        if row.status == "merged":
            sources.setdefault(row.removed_into, set()).add(row.name)
    removed = {edit.name for edit in edits if edit.kind == "remove"}
    undone = {name for name in removed & sources.keys() if sources[name] <= back}
    again = {source for name in undone for source in sources[name]}
    return [
        Change("unmerge", edit.name) if edit.kind == "remove" and edit.name in undone else edit
        for edit in edits
        if edit.kind != "add" or edit.name not in again
    ]


def is_so(row: BulletRow, edit: Change) -> bool:
    """Return whether the ledger says already what an edit of this bullet asks for."""
    return edit.is_so(row.bullet) if edit.values else row.status != "live"


def _recognised(base: Sequence[Bullet], loaded: Loaded) -> Loaded:
    """The file with its entries without a name under the names of the base's bullets that say the
    same, such as those of a file that was adopted and not written since.
    """
    own = {bullet.name for bullet in loaded.bullets} - loaded.named_here
    said = _by_words(bullet for bullet in base if bullet.name not in own)
    names = {
        bullet.name: _next(said, bullet)
        for bullet in loaded.bullets
        if bullet.name in loaded.named_here
    }
    unknown = frozenset(made_up for made_up, name in names.items() if made_up == name)
    return replace(_renamed(loaded, names), named_here=unknown)


def _renamed(loaded: Loaded, names: Mapping[str, str]) -> Loaded:
    bullets = tuple(
        replace(bullet, name=names.get(bullet.name, bullet.name)) for bullet in loaded.bullets
    )
    places = {names.get(name, name): place for name, place in loaded.places.items()}
    uncounted = frozenset(names.get(name, name) for name in loaded.uncounted)
    return replace(loaded, bullets=bullets, uncounted=uncounted, places=places)


def _by_words(bullets: Iterable[Bullet]) -> dict[tuple[str, str], list[str]]:
    said: dict[tuple[str, str], list[str]] = {}
    for bullet in bullets:
        said.setdefault((bullet.section, bullet.text), []).append(bullet.name)
    return said


def _next(said: dict[tuple[str, str], list[str]], bullet: Bullet) -> str:
    """Return the name of the next one that says the same, else the bullet's own."""
    names = said.get((bullet.section, bullet.text))
    return names.pop(0) if names else bullet.name


class Version(NamedTuple):
    """A file's version in git's index: its blob's id and its content."""

    blob: str
    content: bytes


def attributes_file(root: Path) -> Path:
    """Return where a project says that its playbook.json is shared."""
    return root / ".claude" / ".gitattributes"


def is_shared(root: Path) -> bool:
    """Return whether a project's playbook.json is shared through git."""
    try:
        return (
            ATTRIBUTES.encode()
            in read_bounded(attributes_file(root), _MOST_ATTRIBUTES).splitlines()
        )
    except OSError:
        return False


def in_git(root: Path, path: str = _PATH) -> Version | None:
    """playbook.json, or another file, as git checked it out or as it was added last; None where git
    does not know it.
    """
    listed = git_says(root, "ls-files", "--stage", "-z", "--", path)
    if listed is None or listed.count(b"\0") != 1:
        return None
    mode, blob, *_ = listed.decode("utf-8", "replace").split()
    content = git_says(root, "cat-file", "blob", blob) if mode.startswith("100") else None
    return Version(blob, content) if content is not None else None


def has_blob(root: Path, content: bytes) -> bool:
    """Return whether git has this very content in its store: it was committed, added or stashed."""
    blob = git_says(root, "hash-object", "--stdin", given=content)
    return (
        blob is not None
        and git_says(root, "cat-file", "-e", blob.decode("ascii").strip()) is not None
    )


def take_version(ledger: Ledger, project: Project, theirs: Loaded, digest: str) -> int:
    """Append what a version from git says that the ledger does not; how many events it gave. Counts
    stay the ledger's.

    Advice that the version has under another name was given a new one by a merge, and takes its
    evidence with it.
    """
    rows = {row.name: row for row in ledger.rows()}
    live = {row.name: row for row in rows.values() if row.status == "live"}
    position = ledger.head().position
    uncounted = replace(theirs, uncounted=frozenset(bullet.name for bullet in theirs.bullets))
    edits = merges_undone(uncounted.edits_of([row.bullet for row in live.values()]), rows)
    changed = {edit.name for edit in edits if edit.kind in ("revise", "remove")}
    said = {(row.section, row.text): row for row in live.values()}
    events: list[NewEvent] = []
    moved: dict[str, str] = {}
    names = Names(rows)
    root, history = project.root, None
    for edit in edits:
        if edit.kind != "add":
            continue
        section, text = edit.section or "", edit.text or ""
        row = said.get((section, text))
        if (
            row is not None
            and row.name in changed
            and edit.name is not None
            and edit.name not in rows
        ):
            moved[row.name] = edit.name
            names.add(edit.name)
            events.append(_added(added(replace(row.bullet, name=edit.name)), GIT))
        elif row is None:
            gone = rows.get(edit.name or "")
            gone = gone if gone is not None and is_older(gone, edit) else None
            if (
                gone is not None
                and _entry_of(gone.bullet) not in (history := history or _history(root)).removed
            ):
                continue
            name = names.give(edit.name, section)
            bullet = Bullet(name, section, text)
            events.append(_added(added(bullet if gone is None else come_back(gone, name)), GIT))
    for edit in edits:
        if edit.kind == "add":
            continue
        name = edit.name or ""
        if name in moved:
            events += _left(edit, moved[name], digest, position)
        # A version of the present branch said of the bullet what the ledger says now.
        elif not is_so(live[name], edit):
            history = history or _history(root)
            if _entry_of(live[name].bullet) in history.changed:
                events.append(bullet_event(edit, *of_file(digest, position, edit), actor=GIT))
    ledger.append(events, tx=ledger.draw() if events else None)
    return len(events)


def _added(bullet: Change, actor: str) -> NewEvent:
    return bullet_event(bullet, *of_new(bullet), actor=actor, origin="playbook.json")


def _left(edit: Change, to: str, digest: str, position: int) -> list[NewEvent]:
    """Return the events for a name whose bullet is now called `to`; the name is another bullet's
    now, or nobody's.
    """
    place = of_file(digest, position, edit)
    if edit.kind == "remove":
        return [bullet_event(edit, *place, actor=GIT, reason="merged", into=to)]
    events = []
    if edit.kind == "revise":
        recount = bullet_event(
            Change("recount", edit.name, helpful=0, harmful=0), *place, actor=GIT
        )
        events.append(replace(recount, data={**recount.data, "into": to}))
    return [*events, bullet_event(edit, *place, actor=GIT)]


class _History(NamedTuple):
    """What commits of the present branch changed in playbook.json: the entries that one added or
    took out, and those that one took out with their name. An entry is the line of a name and that
    of its text.
    """

    changed: Set[_Entry]
    removed: Set[_Entry]


def _history(root: Path) -> _History:
    """Read the history of playbook.json, in one question to git."""
    # Merges are asked too: a name that two clones gave out is changed in one.
    log = git_says(
        root,
        "log",
        "--format=%x00",
        "-p",
        "-U1",
        "--full-history",
        "-m",
        "--no-color",
        "--no-show-signature",
        "--no-textconv",
        "--no-ext-diff",
        "HEAD",
        "--",
        _PATH,
    )
    changed: set[_Entry] = set()
    removed: set[_Entry] = set()
    for commit in (log or b"").split(b"\0"):
        lines = commit.splitlines()
        before, after = (
            {
                _entry(name[1:], text[1:]): name[:1]
                for name, text in pairwise(line for line in lines if line[:1] in kept)
            }
            for kept in (b" -", b" +")
        )
        changed |= before.keys() ^ after.keys()
        removed |= {entry for entry in before.keys() - after.keys() if before[entry] == b"-"}
    return _History(changed, removed)


def _entry_of(bullet: Bullet) -> _Entry:
    name, text = entry_text(bullet).encode().splitlines()
    return _entry(name, text)


def _entry(name: bytes, text: bytes) -> _Entry:
    return name.strip(), text.strip().removesuffix(b",")
