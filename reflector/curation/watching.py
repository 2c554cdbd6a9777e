"""The lines of a person's files as watched bullets: judged and listed, but neither in playbook.json nor told.

Invariant: the same text is the same bullet, whichever file holds it, and one that the playbook has already is that
bullet. A line that was reworded keeps its name and its evidence; one that is gone is removed, and watched again when it
comes back. Nothing here makes a bullet live: that is for `import`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from typing import Final, NamedTuple

from reflector.curation.changes import bullet_event
from reflector.events import event as ev
from reflector.ledger.store import BulletRow, Ledger
from reflector.playbook.admissible import same_words
from reflector.playbook.change import Change
from reflector.playbook.document import Loaded
from reflector.playbook.markdown import is_markdown, load_markdown
from reflector.playbook.names import Names

ACTOR: Final = "check"
_GONE: Final = "gone from "
_WATCHED: Final = {"watched": True}
#: The share of words in order from which on one text is another one reworded.
_REWORDED: Final = 0.6


class Line(NamedTuple):
    """One piece of advice in a file: `name` where the file gives it one."""

    file: str
    number: int
    section: str
    text: str
    name: str | None = None


class Watching(NamedTuple):
    """The lines by the names of their bullets, and the changes that lead there, each with its file."""

    lines: dict[str, Line]
    changes: list[tuple[Change, str]]


def watch(ledger: Ledger, found: Watching) -> None:
    """Record the changes. The playbook's lock must be held. Raises LedgerError."""
    position = ledger.head().position
    ledger.append(
        [
            bullet_event(
                change, change.name or "", position, index,
                actor=ACTOR, origin=file, reason=f"{_GONE}{file}",
                more=_WATCHED if change.kind in ("add", "restore") else None,
            )
            for index, (change, file) in enumerate(found.changes)
        ]
    )  # fmt: skip


def watching(ledger: Ledger, lines: Sequence[Line], *, first: int = 0) -> Watching:
    """Return what watching these lines changes; `first` is the lowest number of a new name. Raises LedgerError."""
    rows = {row.name: row for row in ledger.rows()}
    known = {same_words(row.text): row.name for row in sorted(rows.values(), key=lambda row: row.status != "removed")}
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
        (Change("restore", name), line.file) for name, line in found.items() if rows[name].status == "removed"
    ]
    names = Names(list(rows), first)
    for line in new:
        beside = (row for row in left if file_of[row.name] == line.file)
        near = max(beside, key=partial(_like, line), default=None)
        if near is not None and _like(line, near) >= _REWORDED:
            left.remove(near)
            changes.append((Change("revise", near.name, text=line.text), line.file))
        else:
            changes.append((Change("add", names.next(line.section), section=line.section, text=line.text), line.file))
        found[changes[-1][0].name or ""] = line
    changes += [(Change("remove", row.name), file_of[row.name]) for row in left]
    return Watching(found, changes)


def adopting(ledger: Ledger, loaded: Loaded, raw: bytes) -> tuple[Loaded, list[Change]]:
    """Return a file without what is watched, and the changes that make that the playbook's. Raises LedgerError."""
    said = {same_words(one.text) for one in (load_markdown(raw, every=True) if is_markdown(raw) else loaded).bullets}
    watched = [row for row in ledger.rows() if row.status == "watched" and same_words(row.text) in said]
    known = {same_words(row.text) for row in watched}
    left = tuple(one for one in loaded.bullets if same_words(one.text) not in known)
    return replace(loaded, bullets=left), [Change("restore", row.name) for row in watched]


def _files(ledger: Ledger) -> dict[str, str]:
    """Return the file that each watched bullet was found in first."""
    added = (event.data or {} for event in ledger.events(types=[ev.BULLET_ADDED]))
    return {str(data["name"]): str(data.get("origin")) for data in added if data.get("watched")}


def _like(line: Line, row: BulletRow) -> float:
    return SequenceMatcher(None, same_words(row.text).split(), same_words(line.text).split(), autojunk=False).ratio()
