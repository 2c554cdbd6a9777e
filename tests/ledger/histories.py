"""Histories as Hypothesis draws them, and empty ledgers to put them into."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import strategies as st

from reflector.events import event as ev
from reflector.events.event import NewEvent
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.playbook.admissible import text_fault

from .events import about, added, adopted, changed, imported, reflected, retracted, window

Fresh = Callable[[], AbstractContextManager[str]]
Step = tuple[str, int, int]

NAMES = ("pat-001", "pat-002", "mis-001")
_TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(lambda text: text_fault(text) is None)
_KINDS = (
    "add",
    "import",
    "revise",
    "move",
    "remove",
    "recount",
    "judge",
    "judge",
    "judge",
    "retract",
    "policy",
    "fail",
)
#: (kind, which one, how much): what a step does depends on what is there, so any list of them is a history.
STEPS = st.lists(st.tuples(st.sampled_from(_KINDS), st.integers(0, 5), st.integers(0, 3)), max_size=12)
TEXT = _TEXTS


@contextmanager
def sqlite_file() -> Iterator[str]:
    """The URL of a SQLite ledger that is not there yet."""
    with tempfile.TemporaryDirectory() as folder:
        yield sqlite_url(Path(folder) / "ledger.db")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def fresh(request: pytest.FixtureRequest) -> Fresh:
    """Opens the URL of an empty ledger, as often as it is called: each test that uses it runs once an engine."""
    if request.param == "sqlite":
        return sqlite_file
    database: Fresh = request.getfixturevalue("postgres").database
    return database


def live(ledger: Ledger, steps: list[Step], who: str) -> None:
    """Play steps on a ledger; `who` keeps what two ledgers do by themselves apart."""
    for number, (kind, which, much) in enumerate(steps):
        key = f"{who}{number}"
        names = [row.name for row in ledger.rows()]
        name = NAMES[which % len(NAMES)]
        if kind == "add" and name not in names:
            ledger.append([added(name, f"About {name}", helpful=much)])
        elif kind == "import" and name not in names:
            ledger.append([imported((name, much, 1), digest=f"{key:0>64}")])
        elif kind == "judge":
            _judge(ledger, name, which, much, key)
        elif kind == "retract":
            _retract(ledger, which, key)
        elif kind == "policy":
            ledger.append([adopted(("as_applied", "once_per_session")[much % 2], number=f"{key}")])  # type: ignore[arg-type]
        elif kind == "fail":
            seen = window(f"{key}", f"s{which}")  # type: ignore[arg-type]
            ledger.append([seen, about(ev.REFLECTION_FAILED, seen, stage="parse", message="no JSON", attempts=1)])
        elif name in names:
            ledger.append([_change(kind, name, key, much)])


def _change(kind: str, name: str, key: str, much: int) -> NewEvent:
    if kind == "revise":
        return changed(ev.BULLET_REVISED, name, key, text=f"About {name}, by {key}")
    if kind == "move":
        return changed(ev.BULLET_MOVED, name, key, section=("oth", "ctx", "pref", "pat")[much])
    if kind == "remove":
        return changed(ev.BULLET_REMOVED, name, key, reason=f"deleted by {key}")
    return changed(ev.BULLET_RECOUNTED, name, key, helpful=much, harmful=1)


def _judge(ledger: Ledger, name: str, which: int, much: int, key: str) -> None:
    seen = window(key, f"s{which}", keys=[crc32(key.encode())])  # type: ignore[arg-type]
    tag = "harmful" if much == 0 else "helpful"
    status = {row.name: row.status for row in ledger.rows()}.get(name)
    disposition = {"live": "counted", "removed": "retired_bullet", None: "unknown_bullet"}[status]
    event = replace(seen, meta={"ms": 12.5, "who": key})
    ledger.append([event, *reflected(f"r-{key}", seen, *[(name, tag, disposition)] * (1 + much % 2))])


def _retract(ledger: Ledger, which: int, key: str) -> None:
    taken = {event.target_id for event in ledger.events(types=[ev.EVIDENCE_RETRACTED])}
    kinds = [ev.BULLET_TAGGED, ev.REFLECTION_COMPLETED, ev.SESSION_RECORDED, ev.EVIDENCE_RETRACTED]
    open_ = [event for event in ledger.events(types=kinds) if event.event_id not in taken]
    if open_:
        target = open_[which % len(open_)]
        ledger.append([retracted(NewEvent(target.type, target.event_id, {}, "x"), f"by {key}")])


def erase_some(ledger: Ledger, which: list[int], *, new_bullets: bool = True) -> None:
    """Redact some of the events that hold prose."""
    prose = [ev.BULLET_REVISED, ev.REFLECTION_COMPLETED, ev.REFLECTION_FAILED]
    made = [ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED] if new_bullets else []
    there: list[Any] = [*ledger.events(types=[*prose, *made])]
    for number in which:
        if there:
            ledger.redact(there.pop(number % len(there)).event_id, reason="a secret", actor="human")
