"""Transcripts read, and judged by the rules, before it is their turn.

Invariant: what is worked out ahead is a hint. It is used where the ledger turns out to ask just that (a window of all
records of the file, nothing carried, the same names with the same texts), else the backend is asked as ever. So a
ledger is the same, event by event, with and without it.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, Backend, Request
from reflector.transcripts.formats import read_messages, scan
from reflector.transcripts.reading import Scan


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say of a whole transcript: the answer, and the texts of the bullets it cites, as it cites them."""

    cited: Mapping[str, str]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What a transcript holds; `judged` where it was to be judged and cites a live bullet."""

    scan: Scan
    judged: Judged | None = None


def packed(bullets: Collection[Bullet], precision: int = 85) -> bytes:
    """Live bullets and the precision to judge by, as `prefetch` takes them, packed once for many files."""
    return pickle.dumps(({bullet.name: bullet for bullet in bullets}, precision))


@lru_cache(maxsize=2)
def _unpacked(bullets: bytes) -> tuple[dict[str, Bullet], int]:
    found: tuple[dict[str, Bullet], int] = pickle.loads(bullets)
    return found


def prefetch(path: str | PathLike[str], limit: int | None, bullets: bytes | None) -> Prefetched:
    """Read a transcript, and judge it by the rules unless `bullets` is None.

    Raises OSError and UnknownTranscript.
    """
    found = scan(path, limit)
    if not bullets or not found.cited:
        return Prefetched(found)
    live, precision = _unpacked(bullets)
    names: dict[str, None] = {}
    for _, cited in found.cited:
        names.update(dict.fromkeys(name for name in cited if name in live))
    if not names:
        return Prefetched(found)
    keys = frozenset(found.keys)
    request = Request(
        session_id="",
        playbook=tuple(live[name] for name in names),
        cited=tuple(names),
        messages=lambda: (message for message in read_messages(path, limit=found.bytes) if message.key in keys),
    )
    answer = RulesBackend(precision).answer(request)
    return Prefetched(found, Judged({name: live[name].text for name in names}, answer))


class PrefetchedBackend:
    """The rules, with answers that somebody worked out before; `ready` is the one for the next window."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.ready: Judged | None = None
        #: How often an answer was there.
        self.used = 0

    @property
    def name(self) -> str:
        return self._backend.name

    @property
    def is_model(self) -> bool:
        return self._backend.is_model

    def answer(self, request: Request, part: int = 1) -> Answer:
        """Return the answer that is ready where it is one to this request, else the backend's."""
        ready, self.ready = self.ready, None
        if ready is not None and part == 1 and self._asks_for(request, ready):
            self.used += 1
            return ready.answer
        return self._backend.answer(request, part)

    @staticmethod
    def _asks_for(request: Request, ready: Judged) -> bool:
        if request.cited != tuple(ready.cited):
            return False
        texts = {bullet.name: bullet.text for bullet in request.playbook if bullet.name in ready.cited}
        return texts == ready.cited
