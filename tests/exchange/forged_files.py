"""Files of a ledger that lie: their hashes are right, and what they hold no ledger would have taken."""

from __future__ import annotations

import json

from reflector.events.event import NewEvent
from reflector.exchange.transfer import exported
from reflector.ledger.canonical import next_chain, plain, sealed
from reflector.ledger.store import Ledger
from tests.conftest import sqlite_file


def forged(*events: NewEvent, at: str = "2026-01-02T03:04:05.000000Z") -> list[str]:
    """A file of these events, all recorded at one time."""
    with sqlite_file() as url, Ledger.open(url) as ledger:
        head = ledger.head()
        lines: list[str] = []
        chain = head.chain
        for position, e in enumerate(events, start=1):
            (_, of), (meta, of_meta) = sealed(plain(e.data)), sealed(plain(e.meta))
            header = (position, e.event_id, e.type, 1, at, at, e.actor, e.session_id, e.reflection_id, e.target_id)
            chain = next_chain(chain, header, of, of_meta)
            names = ("position", "id", "type", "schemaversion", "occurredat", "time", "actor")
            line = {"specversion": "1.0", "source": f"urn:reflector:ledger:{head.origin}"}
            line |= dict(zip(names, header, strict=False)) | {"datahash": of, "meta": meta, "chain": chain}
            more = {"sessionid": e.session_id, "reflectionid": e.reflection_id, "targetid": e.target_id}
            line |= {name: value for name, value in more.items() if value} | {"data": e.data}
            lines.append(json.dumps(line))
        first = json.loads(next(exported(ledger)))
        first["data"] |= {"position": len(events), "chain": chain}
        return [json.dumps(first), *lines]
