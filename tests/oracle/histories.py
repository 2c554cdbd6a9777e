"""Random histories of one to three machines: what a machine does, and which windows more than
one of them sees.
"""

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from tests.ledger.events import (
    about,
    added,
    adopted,
    changed,
    imported,
    reflected,
    retracted,
    window,
)

_NAMES = ("pat-001", "mis-001", "ctx-001", "pat-999")
_STRAY = (
    ("pat-001", "neutral", "neutral"),
    ("mis-001", "unknown", "unknown_tag"),
    (None, "helpful", "malformed"),
)
_KEYS = (0, 1, -1, 5, 2**62, -(2**63), 2**63 - 1)
_DO = (
    "window window shared shared again again retract retract redact recount add remove revise "
    "policy skip"
)
_POLICIES = ("as_applied", "once_per_reflection", "once_per_session")


def begin(ledger: Ledger) -> None:
    """What every machine has."""
    ledger.append([imported(("pat-001", 2, 1), ("mis-001", 0, 0))])


def live(ledger: Ledger, chance: random.Random, who: str, steps: int) -> None:
    """Let a machine go on for so many steps; what cannot be appended is left out."""
    for number in range(steps):
        what, key = chance.choice(_DO.split()), f"{who}{number}"
        with suppress(LedgerError):
            if what == "redact":
                prose = list(
                    ledger.events(
                        types=[ev.SESSION_RECORDED, ev.REFLECTION_ANSWERED, ev.BULLET_REVISED]
                    )
                )
                ledger.redact(
                    [chance.choice(prose).event_id], reason="x", actor="human"
                ) if prose else None
            else:
                ledger.append(_step(ledger, chance, what, key))


def _step(ledger: Ledger, chance: random.Random, what: str, key: str) -> list[NewEvent]:
    name = chance.choice([row.name for row in ledger.rows()])
    if what == "window":
        session = chance.choice(["s1", "s2", "s3", None])
        seen = _citing(
            ledger, chance, window(key, session, chance.sample(_KEYS, chance.randint(0, 4)))
        )  # type: ignore[arg-type]
        return [seen, *_judged(f"r-{key}", seen, "rules", _tags(chance, ledger))]
    if what == "shared":
        # Every machine sees the same window, and a judge says the same of it everywhere.
        number, judge = chance.randrange(4), chance.choice(["rules", "anthropic"])
        seen = window(f"shared{number}", f"s{number}", [100 + number])  # type: ignore[arg-type]
        there = ledger.event(seen.event_id) is not None
        judged = there and ev.REFLECTION_COMPLETED in {
            event.type for event in ledger.targeting(seen.event_id)
        }
        if judged:
            return []
        tags = _tags(random.Random(f"{number} {judge}"))
        return [*([] if there else [seen]), *_judged(f"r-{number}-{judge}", seen, judge, tags)]
    if what in ("again", "skip"):
        windows = list(ledger.events(types=[ev.SESSION_RECORDED]))
        if not windows:
            return []
        old = chance.choice(windows)
        if what == "skip":
            return [about(ev.REFLECTION_SKIPPED, old, key, reason="a gate")]
        seen = _citing(
            ledger, chance, window(key, old.session_id, chance.choice([(1,), (1, 2), ()]))
        )  # type: ignore[arg-type]
        given = [
            e for e in ledger.events(types=[ev.BULLET_TAGGED]) if e.session_id == old.session_id
        ]
        tags = [(e.data["name"], e.data["tag"], e.data["disposition"]) for e in given[:3] if e.data]
        return [seen, *_judged(f"r-{key}", seen, "rules", tags)]
    if what == "retract":
        kinds = [
            ev.SESSION_RECORDED,
            ev.REFLECTION_COMPLETED,
            ev.BULLET_TAGGED,
            ev.EVIDENCE_RETRACTED,
        ]
        target = chance.choice(list(ledger.events(types=kinds)) or [None])  # type: ignore[list-item]
        return [retracted(target, f"by {key}")] if target else []
    if what == "recount":
        return [changed(ev.BULLET_RECOUNTED, name, key, helpful=chance.randrange(5), harmful=1)]
    if what == "add":
        return [added("ctx-001", f'About it, 50% "quoted" by {key}', helpful=chance.randrange(3))]
    if what == "remove":
        return [
            changed(
                ev.BULLET_REMOVED,
                name,
                key,
                reason="deleted",
                into=chance.choice([None, "oth-001"]),
            )
        ]
    if what == "revise":
        return [changed(ev.BULLET_REVISED, name, key, text=f"Otherwise, says {key}")]
    return [adopted(chance.choice(_POLICIES), key)]  # type: ignore[arg-type]


def _citing(ledger: Ledger, chance: random.Random, seen: NewEvent) -> NewEvent:
    """The window with citations of bullets of this ledger, live and removed, and of one that no
    ledger has.
    """
    cites: dict[str, list[str]] = {
        "cited": [],
        "retired": [],
        "unknown": chance.choice([[], ["pat-999"]]),
    }
    for row in ledger.rows():
        if chance.random() < 0.4:
            cites["cited" if row.status == "live" else "retired"].append(row.name)
    return replace(seen, data={**seen.data, **cites})


def _tags(chance: random.Random, ledger: Ledger | None = None) -> list[Any]:
    """What a judge says; of a bullet that machines name by themselves only where it is one in
    this ledger.
    """
    names = (
        _NAMES
        if ledger is not None and ledger.row("ctx-001") is not None
        else (*_NAMES[:2], _NAMES[3])
    )

    def tag() -> Any:
        if chance.random() < 0.15:
            return chance.choice(_STRAY)
        return (
            chance.choice(_NAMES[:2] * 3 + names),
            chance.choice(["helpful", "helpful", "harmful"]),
            "counted",
        )

    return [tag() for _ in range(chance.randint(1, 5))]


def _judged(reflection: str, seen: NewEvent, judge: str, tags: list[Any]) -> list[NewEvent]:
    """Two answers that took tokens, and what was read from them, with a rationale for every
    other tag.
    """
    said = {"mode": "citation_guided", "backend": judge, "model": "m"}
    spent = {
        "input_tokens": 100,
        "output_tokens": 7,
        "cache_read_tokens": 3,
        "cost_usd": "0.001500",
    }
    asked = [
        about(
            ev.REFLECTION_ANSWERED, seen, f"{judge}{n}", **said, answer="…", prompt_sha256="a" * 64
        )
        for n in "12"
    ]
    answers = [
        replace(one, actor=judge, session_id=seen.session_id, reflection_id=reflection, meta=spent)
        for one in asked
    ]
    completed, *given = reflected(reflection, seen, *tags, actor=judge)
    rationales = [
        {"index": index, "rationale": f'why "{index}" – \\n é'} for index in range(0, len(tags), 2)
    ]
    return [
        *answers,
        replace(completed, data={**completed.data, **said, "rationales": rationales}),
        *given,
    ]
