"""The log of memory files from before the first look: from transcripts and from git.

Invariant: nothing is recorded twice. A call that the log has is passed over, and so is one after
the first look, whose change a comparison of looks has recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from pathlib import Path

from reflector.events.event import NewEvent
from reflector.events.memory import AGENT, COMMIT, GIT, TRANSCRIPT
from reflector.memory.bytes import keep_bytes
from reflector.memory.calls import Call, sitting_of
from reflector.memory.lines import LineChange, Numbered, masked_lines
from reflector.memory.looks import Looks, plain_digest
from reflector.memory.naming import Author, Content
from reflector.memory.recording import NewChange, Recorder, event_of, known_calls

_UNSEEN = Content(None, is_known=False)


def fill_back(recorder: Recorder, transcripts: Iterable[Path]) -> int:
    """Record the changes of watched files that transcripts and commits show; return the number of
    new events. The lock of the recorder's project must be held.

    Raises:
        OSError, LedgerError: nothing is recorded.
    """
    changes = [*_by_calls(recorder, transcripts), *_by_commits(recorder)]
    events: dict[str, NewEvent] = {}
    for change in sorted(changes, key=lambda change: change.time):
        for content in (change.before, change.after):
            if content.bytes is not None:
                keep_bytes(recorder.project, plain_digest(content.bytes), content.bytes)
        is_tracked = change.source == GIT or recorder.is_tracked(change.file)
        event = event_of(recorder, change, is_tracked=is_tracked)
        events.setdefault(event.event_id, event)
    recorded = {event.event_id for event in recorder.ledger.having(list(events))}
    new = [event for event in events.values() if event.event_id not in recorded]
    if new:
        recorder.ledger.append(new)
    return len(new)


def _by_calls(recorder: Recorder, transcripts: Iterable[Path]) -> Iterator[NewChange]:
    """Yield the changes of tool calls, each file replayed from its first whole content."""
    seen = Looks.load(recorder.project).seen.get(str(recorder.root))
    first_look = seen.first if seen else inf
    sittings = [sitting_of(path, [recorder.table]) for path in transcripts]
    known = known_calls(recorder.ledger)
    contents: dict[str, Content] = {}
    calls = [call for sitting in sittings for call in sitting.calls]
    for call in sorted(calls, key=lambda call: call.time):
        file = call.watched.file
        if call.time >= first_look or (file, call.session, call.id) in known:
            continue
        known.add((file, call.session, call.id))  # a fork has the calls of its original
        before = contents.get(file, _UNSEEN)
        after = _after(call, before)
        contents[file] = after
        lines = _lines(call, before, after)
        author = Author(AGENT, call.agent, call.session, call.id)
        yield NewChange(file, before, after, author, call.time, TRANSCRIPT, lines)


def _after(call: Call, before: Content) -> Content:
    """Return the content after a call, as far as it is known."""
    if not before.is_known and call.content is None:
        return _UNSEEN
    content = call.apply(before.bytes)
    return _UNSEEN if content is None or call.is_opaque else Content(content)


def _lines(call: Call, before: Content, after: Content) -> LineChange | None:
    """Return the lines of a call if the contents are not known; None to compare the contents."""
    if before.is_known and after.is_known:
        return None
    added = call.content or b"\n".join(edit.new for edit in call.edits)
    removed = b"\n".join(edit.old for edit in call.edits)
    return LineChange(_unnumbered(added), _unnumbered(removed))


def _unnumbered(content: bytes) -> list[Numbered]:
    return [line._replace(number=0) for line in masked_lines(content)]


def _by_commits(recorder: Recorder) -> Iterator[NewChange]:
    repository = recorder.repository
    for commit in repository.commits(recorder.table.pathspecs()) if repository else ():
        author = Author(COMMIT, commit=commit.commit, author=commit.author)
        contents = (Content(commit.before), Content(commit.after))
        yield NewChange(commit.file, *contents, author, commit.time, GIT)
