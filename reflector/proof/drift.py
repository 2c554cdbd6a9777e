"""Whether the tables say what the events say.

Invariant: every column that can be rebuilt is compared with the pure fold, so a ledger without drift answers
every question as a rebuilt one would. Each difference is one sentence; nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from reflector.events.fold import Entry, Playbook
from reflector.ledger import tables
from reflector.ledger.checkpoints import CODE_VERSION, TABLES

_COLUMNS = (*(field.name for field in fields(Entry)), "helpful", "harmful")
_HASH = re.compile(r"[0-9a-f]{64}")

#: A session window: (position, session id, state, attempts, when its state last changed).
Window = tuple[int, str | None, str, int, str]


@dataclass(slots=True)
class Folded:
    """What the events say, all of them read.

    windows   by the window's event id
    keys      of every transcript record that a window holds
    active    positions of the tags that the tag table counts, by name, in order: what is to be compared
    """

    playbook: Playbook = field(default_factory=Playbook)
    windows: dict[str, Window] = field(default_factory=dict)
    keys: set[int] = field(default_factory=set)
    active: dict[str, list[int]] = field(default_factory=dict)


def drift(connection: sa.Connection, playbook_id: int, folded: Folded) -> Iterator[str]:
    """Differences between the tables and the fold of all events."""
    playbook = folded.playbook

    def rows(table: sa.Table, *columns: str, order: str | None = None) -> list[tuple[Any, ...]]:
        chosen = [table.c[name] for name in columns]
        query = sa.select(*chosen).where(table.c.playbook_id == playbook_id)
        return [tuple(row) for row in connection.execute(query.order_by(table.c[order]) if order else query)]

    stored = rows(tables.bullet, *_COLUMNS, order="ordinal")
    yield from _bullets({row[0]: row for row in stored}, playbook)
    columns = ("event_id", "position", "session_id", "state", "attempts", "changed_at")
    yield from _pairs("window", folded.windows, {row[0]: row[1:] for row in rows(tables.session_window, *columns)})
    taken_in = {row[0] for row in rows(tables.record, "key")}
    if taken_in != folded.keys:
        yield f"{len(taken_in ^ folded.keys)} transcript records are known to the table or to the events, not to both"
    retractions = {by: (target, int(playbook.active(by))) for target, by in playbook.retractions().items()}
    yield from _pairs(
        "retraction",
        retractions,
        {row[0]: row[1:] for row in rows(tables.retraction, "event_id", "target_id", "active")},
    )
    for name in sorted(playbook.tagged_names() | folded.active.keys()):
        counted = [tag[0] for tag in playbook.counted(name)]
        if counted != folded.active.get(name, []):
            unlike = sorted(set(counted) ^ set(folded.active.get(name, [])))
            yield f"of {name}, the tags at {str(unlike[:10])[1:-1]} count in the table or by the events, not in both"
    yield from _checkpoints(
        rows(tables.projection, "name", "code_version", "policy_id", "position", "state_hash", "updated_at"), playbook
    )


def _checkpoints(stored: list[tuple[Any, ...]], playbook: Playbook) -> Iterator[str]:
    of = {row[0]: row[1:] for row in stored}
    wanted = (CODE_VERSION, playbook.adopted, 0, "", playbook.updated_at)
    found = of.pop(TABLES, None)
    if found != wanted:
        yield f"version, counting, and time of the last change are {found} in the table, {wanted} by the events"
    for name, (version, policy, position, state_hash, updated_at) in of.items():
        # Writing a file is not an event, so only the form of such a checkpoint is checked.
        there = 0 <= position <= playbook.position and _HASH.fullmatch(state_hash) is not None
        if not there or not 0 < version <= CODE_VERSION or (policy, updated_at) != ("", None):
            yield f"the checkpoint {name!r} is not one that reflector writes: {of[name]}"


def _bullets(stored: dict[str, tuple[Any, ...]], playbook: Playbook) -> Iterator[str]:
    made = {name: (*astuple(entry), *playbook.counters(name)) for name, entry in playbook.entries.items()}
    for name in _both(made, stored):
        if name not in stored or name not in made:
            yield f"{name} is missing in {'the table' if name not in stored else 'the events'}"
            continue
        for column, wanted, got in zip(_COLUMNS, made[name], stored[name], strict=True):
            if wanted != got:
                yield f"{name}: {column} is {str(got)[:60]!r} in the table, {str(wanted)[:60]!r} by the events"


def _pairs(what: str, folded: Mapping[str, tuple[Any, ...]], stored: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    for key in _both(folded, stored):
        if folded.get(key) != stored.get(key):
            yield f"{what} {key} is {stored.get(key)} in the table, {folded.get(key)} by the events"


def _both(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))
