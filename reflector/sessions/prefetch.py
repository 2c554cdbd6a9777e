"""Transcripts read, and judged by the rules, before it is their turn.

Invariant: what is prefetched is a hint. It is used if the ledger asks exactly that (a window of all records of the
file, and for an answer nothing carried, the same names with the same texts); otherwise the file is read again. So a
ledger is the same, event by event, with and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike

from reflector.curator.wishes import wishes
from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, Backend, Request
from reflector.transcripts.formats import scan
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
    """Read a transcript once, and judge the live `bullets` (by name) that it cites by the rules.

    Raises OSError and UnknownTranscript.
    """
    judging = RulesBackend(precision).judging(bullets) if bullets else None
    found = scan(path, limit, once=judging.take if judging else None, gather=lambda message: wishes([message]))
    cited = dict.fromkeys(name for _, names in found.cited for name in names if name in bullets)
    answer = judging.answer(cited) if judging is not None and cited else None
    return Prefetched(found, answer, {name: bullets[name].text for name in cited})


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
