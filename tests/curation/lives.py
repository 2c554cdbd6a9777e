"""Histories with merges: what a step does depends on what is there, so any list of steps is a history."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.ledger.errors import AlreadyRetracted, Conflict
from reflector.ledger.store import Ledger
from tests.ledger.events import added, adopted, changed, merged, reflected, retracted, window

#: What may happen, the more often the more often it is named.
KINDS = (
    *("session",) * 6,
    *("merge",) * 3,
    *("unmerge",) * 2,
    "late",
    "add",
    "remove",
    "restore",
    "recount",
    "retract",
    "revise",
    "move",
    "policy",
    "redact",
)


class Life:
    """A machine's ledger and what was done to it; `who` keeps what machines do by themselves apart."""

    def __init__(self, ledger: Ledger, who: str) -> None:
        self.ledger = ledger
        self.who = who
        self.number = 0

    def step(self, kind: str, chance: random.Random) -> None:
        """Do one thing, if it can be done."""
        self.number += 1
        key = f"{self.who}{self.number}"
        rows = self.ledger.rows()
        live = [row.name for row in rows if row.status == "live"]
        if kind in ("session", "late"):
            # Late evidence is about what an older text told: bullets that were merged, removed or never there.
            gone = [row.name for row in rows if row.status == "merged"] or live
            self._session(key, gone if kind == "late" else live, chance)
        elif kind == "add":
            self._append(added(self._name("pat"), f"Advice {key}", chance.randrange(3), chance.randrange(2)))
        elif kind == "merge" and len(live) > 1:
            sources = chance.sample(live, min(len(live), chance.randint(2, 3)))
            self._append(merged(self._name("mis"), *sources, text=f"Merged {key}"))
        elif kind == "unmerge":
            # Outer merges, inner ones, and those whose bullet was removed meanwhile.
            made = [event.data["name"] for event in self.ledger.events(types=[ev.BULLET_MERGED]) if event.data]
            self._change(ev.BULLET_UNMERGED, made, key, chance)
        elif kind == "remove":
            self._change(ev.BULLET_REMOVED, [row.name for row in rows], key, chance, reason="pruned", into=None)
        elif kind == "restore":
            self._change(ev.BULLET_RESTORED, [row.name for row in rows if row.status != "live"], key, chance)
        elif kind == "recount":
            counts = {"helpful": chance.randrange(5), "harmful": chance.randrange(3)}
            self._change(ev.BULLET_RECOUNTED, [row.name for row in rows], key, chance, **counts)
        elif kind == "revise":
            self._change(ev.BULLET_REVISED, [row.name for row in rows], key, chance, text=f"Worded {key}")
        elif kind == "move":
            self._change(ev.BULLET_MOVED, [row.name for row in rows], key, chance, section="oth")
        elif kind == "policy":
            policy = chance.choice(["as_applied", "once_per_reflection", "once_per_session"])
            self._append(adopted(policy, key))  # type: ignore[arg-type]
        elif kind == "retract":
            types = [ev.BULLET_TAGGED, ev.REFLECTION_COMPLETED, ev.SESSION_RECORDED, ev.EVIDENCE_RETRACTED]
            there = list(self.ledger.events(types=types))[-40:]
            if there:
                target = chance.choice(there)
                with suppress(AlreadyRetracted, Conflict):
                    self._append(retracted(NewEvent(target.type, target.event_id, {}, "x"), f"by {key}"))
        elif kind == "redact":
            prose = list(self.ledger.events(types=[ev.BULLET_MERGED, ev.BULLET_REVISED]))
            if prose:
                self.ledger.redact(chance.choice(prose).event_id, reason="a secret", actor="human")

    def _append(self, *events: NewEvent) -> None:
        self.ledger.append(events)

    def _name(self, slug: str) -> str:
        # Machines give names of their own, so that a merge of their ledgers asks nobody.
        return f"{slug}-{1 + 'ab'.index(self.who)}{self.number:04d}"

    def _change(self, type_: str, names: list[str], key: str, chance: random.Random, **data: Any) -> None:
        if names:
            self._append(changed(type_, chance.choice(names), key, **data))

    def _session(self, key: str, names: list[str], chance: random.Random) -> None:
        seen = window(key, chance.choice(["s1", "s2", key]), [int(identity("key", key)[:8], 16)])  # type: ignore[arg-type]
        tags = [
            (chance.choice(names), chance.choice(["helpful", "helpful", "harmful"]), "counted")
            for _ in range(chance.randint(1, 4) if names else 0)
        ]
        self._append(seen, *reflected(f"r-{key}", seen, *tags))
