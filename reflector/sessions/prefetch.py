"""Transcripts read, and judged by the rules, before it is their turn.

Invariant: what is prefetched is a hint. It is used if the ledger asks exactly that (a window of all records of the
file, nothing carried, the same names with the same texts); otherwise the backend is asked. So a ledger is the same,
event by event, with and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, Backend, Request
from reflector.transcripts.formats import read_messages, scan
from reflector.transcripts.reading import Scan


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What a transcript holds; if it cites live bullets, the rules' answer and the texts of those bullets, as cited."""

    scan: Scan
    answer: Answer | None = None
    cited: Mapping[str, str] = field(default_factory=dict)


def prefetch(
    path: str | PathLike[str], limit: int | None, bullets: Mapping[str, Bullet], precision: int = 85
) -> Prefetched:
    """Read a transcript, and judge the live `bullets` (by name) that it cites by the rules.

    Raises OSError and UnknownTranscript.
    """
    found = scan(path, limit)
    names = list(dict.fromkeys(name for _, cited in found.cited for name in cited if name in bullets))
    if not names:
        return Prefetched(found)
    keys = frozenset(found.keys)
    request = Request(
        session_id="",
        playbook=tuple(bullets[name] for name in names),
        cited=tuple(names),
        messages=lambda: (message for message in read_messages(path, limit=found.bytes) if message.key in keys),
    )
    return Prefetched(found, RulesBackend(precision).answer(request), {name: bullets[name].text for name in names})


class PrefetchedBackend:
    """A backend whose answer to the next window may be `ready`; `used` counts the ready answers that were given."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name, self.is_model = backend.name, backend.is_model
        self.ready: Prefetched | None = None
        self.used = 0

    def answer(self, request: Request, part: int = 1) -> Answer:
        """Return the ready answer if it is one to this request, else the backend's."""
        ready, self.ready = self.ready, None
        if ready is None or ready.answer is None or part != 1 or request.cited != tuple(ready.cited):
            return self._backend.answer(request, part)
        if {bullet.name: bullet.text for bullet in request.playbook if bullet.name in ready.cited} != ready.cited:
            return self._backend.answer(request, part)
        self.used += 1
        return ready.answer
