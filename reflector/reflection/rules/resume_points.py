"""The places in a transcript at which the judging of a session can resume when the session has grown.

Invariant: judging that resumes at a place finds what judging from the first citation finds, or raises an error. A place
is the start of a line at which the agent or a person speaks, before every citation that is still open at the end. The
state that is kept for it contains no text of the transcript: earlier rationales are in the ledger's last answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reflector.reflection.rules import reading
from reflector.reflection.rules.reading import Reader
from reflector.transcripts.checkpoint import Places, speaks
from reflector.transcripts.message import Message

#: More places than these are thinned out.
_MOST = 256


@dataclass(slots=True)
class _Mark:
    """A place, what the readers of the file and of its citations know there, and which calls have no result yet.

    waited  how many results had been kept for a first citation, None where that citation was met, or none was kept
    """

    offset: int
    conversation: list[Any]
    reader: dict[str, Any]
    calls: frozenset[str]
    waited: int | None

    def as_json(self) -> dict[str, Any]:
        """Return what has to be known to begin here."""
        return {"place": [self.offset, self.conversation], "reader": self.reader}

    def knows_enough(self, waited: int) -> bool:
        """Return whether who begins here keeps the same results for a citation that comes now."""
        return self.waited is None or waited - self.waited >= reading._BEFORE


class ResumePoints:
    """Follows a reader of citations, and knows the last place at which a later reading can resume."""

    def __init__(self, reader: Reader, places: Places) -> None:
        self._reader, self._places = reader, places
        self._marks: list[_Mark] = []
        self._repeated = 0

    def come_to(self, message: Message) -> None:
        """Look at the place before the next message."""
        here, self._places.here = self._places.here, None
        if self._places.repeated != self._repeated:  # who begins before it would take a record for the first of two
            self._repeated = self._places.repeated
            self._marks.clear()
        for result in message.results:
            if any(result.call_id in mark.calls for mark in self._marks):
                self._marks = [mark for mark in self._marks if result.call_id not in mark.calls]
        if here is None or here[0] != message.offset or not speaks(message) or (state := self._reader.saved()) is None:
            return
        chain = self._reader.only_chain
        assert chain is not None  # its state was saved
        waits = None if chain.citations or not chain.before else chain.waited
        self._drop_needless()
        self._marks.append(_Mark(*here, state, frozenset(chain.calls), waits))
        self._places.next_after(here[0])

    def cited(self, before: bool) -> None:
        """Note that a message opened a citation; `before` says whether another one was open."""
        chain = self._reader.only_chain
        if before or chain is None or not chain.citations:
            return
        self._marks = [mark for mark in self._marks if mark.knows_enough(chain.waited)]
        for mark in self._marks:
            mark.waited = None

    def last(self) -> _Mark | None:
        """Return the last place that is good enough at the end of the messages, None where there is none."""
        self._drop_needless()
        chain = self._reader.only_chain
        if chain is None or not self._places.may_end or self._places.repeated != self._repeated:
            return None
        return self._marks[0] if self._marks and self._is_good(self._marks[0]) else None

    def _is_good(self, mark: _Mark) -> bool:
        chain = self._reader.only_chain
        assert chain is not None  # it was one when the mark was made, and is asked before another one is
        return mark.knows_enough(chain.waited) and all(mark.offset <= one.at for one in chain.citations)

    def _drop_needless(self) -> None:
        """Drop the places before the last one that is good by now: what is open later was opened later."""
        if self._reader.only_chain is None:
            self._marks.clear()
            return
        good = [number for number, mark in enumerate(self._marks) if self._is_good(mark)]
        del self._marks[: good[-1] if good else 0]
        if len(self._marks) > _MOST:
            del self._marks[1:-1:2]
