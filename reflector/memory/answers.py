"""Answers about the recorded changes to watched files: who wrote a line, when, and after which
words.

Invariant: nothing is changed. The words of a session are read from its transcript for each answer.
Without the transcript, the answer lacks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from reflector.attribution.calls import words_before_call
from reflector.events.event import SESSION_RECORDED
from reflector.events.memory import AGENT, LOOK, UNSEEN
from reflector.files import open_regular
from reflector.memory.authors import Authors, Writers
from reflector.memory.changes import Change, Store
from reflector.memory.lines import cut, masked_lines
from reflector.project import Project
from reflector.text.secrets import quote
from reflector.transcripts.building import fields, plain_text
from reflector.transcripts.readers import transcripts_of
from reflector.transcripts.reading import UnknownTranscript

_MOST_WORDS = 240
#: The number of first bytes of a transcript that contain the session's name.
_HEAD = 1 << 20
#: The file in the user's own folder with the ids of the changes that you keep.
_KEPT = "memory-kept.json"


@dataclass(frozen=True, slots=True)
class Former:
    """A line that was in a place before, and the change that added it; None if not recorded."""

    text: str
    written: Change | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a watched file, with its history.

    written    the change that added it; None if that is not recorded
    committed  the commit that contains it
    first      the change that added it first, if it was removed in between
    words      your last words before it was written; "" if they are unknown
    was        the lines in its place before
    origin     if no recorded change added it, the change that may have; "" if there is none
    """

    file: str
    number: int
    text: str
    written: Change | None = None
    committed: Change | None = None
    first: Change | None = None
    words: str = ""
    was: Sequence[Former] = ()
    origin: str = ""


def is_restorable(change: Change) -> bool:
    """Return whether `undo` can write the version before a change."""
    if UNSEEN in (change.before, change.after):
        return False
    return change.store.versions.has(change.before) or change.fact("commit") != ""


def lines_with_writers(file: str, changes: Sequence[Change], content: bytes) -> list[Line]:
    """Return the lines of a file with their changes.

    changes  only of this file
    """
    digests = changes[-1].store.versions.digests(content) if changes else []
    authors = Authors(changes).version(content, digests)
    lines = []
    for (number, masked), writers in zip(masked_lines(content), authors, strict=True):
        text = cut(masked)
        is_blank = not text.strip()
        lines.append(Line(file, number, text, *(Writers() if is_blank else writers)))
    return lines


def line_of(stores: Sequence[Store], changes: Sequence[Change], line: Line) -> Line:
    """Return a line with your words before it, and with the lines in its place before."""
    written = line.written
    if written is None:
        return replace(line, origin=_possible_origin(changes))
    known = Authors(changes[: changes.index(written)]).known
    was = [
        Former(text, known.get(text, Writers()).written) for text in _replaced(written, line.text)
    ]
    return replace(line, words=words_before(stores, written), was=was)


def _possible_origin(changes: Sequence[Change]) -> str:
    """Return the last change that may have written a line of unknown origin, in words; "" if there
    is none. It is one that was not undone, and whose lines are not known.
    """
    for change in reversed(changes):
        if not any(change.lines) and not change.undone_at:
            by = f"{change.place}, {change.author}"
            return f"perhaps by change {by} (reflector does not know the lines of this change)"
    return ""


def _replaced(change: Change, text: str) -> list[str]:
    """Return the line that a line of a change reworded, or else the lines that it replaced."""
    removed = next((hunk.removed for hunk in change.lines.hunks if text in hunk.added), [])
    replaced = [line for line in removed if line.strip()]
    return get_close_matches(text, replaced, n=1) or replaced


def words_before(stores: Sequence[Store], change: Change) -> str:
    """Return your last words in the session before a change; "" if they are unknown."""
    words = ""
    session = change.fact("session")
    for path in _transcripts(stores, session) if session else ():
        with suppress(OSError, UnknownTranscript):
            call = change.fact("call")
            words = words_before_call(path, call, change.event.occurred_at) or words
    return quote(words, _MOST_WORDS)


def _transcripts(stores: Sequence[Store], session: str) -> Iterator[Path]:
    """Yield the transcripts of a session: those in a ledger, or else those that the agents keep."""
    recorded = (
        fields(event.facts.get("transcript"))
        for store in stores
        for event in store.ledger.events(types=[SESSION_RECORDED], session_id=session)
    )
    paths = (Path(plain_text(transcript.get("path"))) for transcript in recorded)
    known = dict.fromkeys(path for path in paths if path.is_file())
    for path in known or transcripts_of(session):
        with suppress(OSError), open_regular(path) as file:
            if session.encode() in file.read(_HEAD):
                yield path


def undecided(home: Project, changes: Iterable[Change]) -> list[Change]:
    """Return the changes of agents that you neither kept nor undid."""
    kept = set(home.read_kept(_KEPT) or ())
    return [
        change
        for change in changes
        if change.fact("by") == AGENT
        and change.fact("source") == LOOK
        and not (change.undone_at or change.is_foreign)
        and change.event.event_id not in kept
    ]


def keep_change(home: Project, change: Change) -> None:
    """Record that you keep a change of an agent."""
    kept = home.read_kept(_KEPT) or []
    home.keep(_KEPT, [*kept, change.event.event_id])
