"""Which sessions were told which bullets, and for how many a bullet was told since it last helped.

Invariant: a session is told a bullet at most once, however often it was resumed or compacted, and a session without a
record of what it was told is unknown, never untold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reflector.events.event import ADVICE_TOLD
from reflector.ledger.reader import Reader


@dataclass(frozen=True, slots=True)
class Tellings:
    """What was recorded of tellings up to a position.

    sessions  the sessions of which it is recorded what they were told
    told      the position at which each session was first told a bullet, by the bullet's name; of a lesson, by its id
    helped    the position of a bullet's last helpful verdict, by name
    texts     how many texts were told, each resume and compaction with its own
    """

    sessions: frozenset[str]
    told: Mapping[str, Mapping[str, int]]
    helped: Mapping[str, int]
    texts: int

    def idle(self, name: str) -> int:
        """Return in how many sessions a bullet was told since a verdict last said that it helped, or ever."""
        since = self.helped.get(name, 0)
        return sum(position > since for position in self.told.get(name, {}).values())


def tellings(ledger: Reader, upto: int | None = None) -> Tellings:
    """Return what was told up to a position; None for now. Raises LedgerError."""
    sessions: set[str] = set()
    told: dict[str, dict[str, int]] = {}
    texts = 0
    for event in ledger.events(types=[ADVICE_TOLD], upto=upto):
        texts += 1
        session = event.session_id or event.target_id
        if session is None or event.data is None:
            continue  # a task of an embedder
        if "digest" in event.data:
            sessions.add(session)
        for name in (*event.data.get("bullets", ()), *event.data.get("lessons", ())):
            told.setdefault(name, {}).setdefault(session, event.position)
    query = "SELECT name, max(position) FROM tag WHERE playbook_id = ? AND tag = 1 AND active = 1 AND position <= ?"
    last = ledger.head().position if upto is None else upto
    with ledger.asking() as sql:
        helped = dict(sql.run(f"{query} GROUP BY name", last).fetchall())
    return Tellings(frozenset(sessions), told, helped, texts)


def told_texts(ledger: Reader) -> int:
    """Return `texts` of `tellings`, for now. Raises LedgerError."""
    # The literal condition is that of an index which leaves tags out.
    query = "SELECT count(*) FROM event WHERE playbook_id = ? AND type = ? AND type <> 'bullet.tagged'"
    with ledger.asking() as sql:
        return int(sql.run(query, ADVICE_TOLD).fetchone()[0])
