"""Whether the tables say what the events say.

Invariant: every column that can be rebuilt is compared with the pure fold, so a ledger without drift answers
every question as a rebuilt one would. Each difference is one sentence; nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from reflector.ledger import tables
from reflector.ledger.projection import TABLES
from reflector.playbook.fold import Entry, Playbook

_FIELDS = ("section", "text", "status", "reason", "removed_into", "position", "recounted_at")
_COUNTERS = ("baseline_helpful", "baseline_harmful", "helpful", "harmful")


def drift(
    connection: sa.Connection,
    playbook_id: int,
    playbook: Playbook,
    windows: Mapping[str, tuple[str, int]],
    keys: set[int],
) -> Iterator[str]:
    """Differences between the tables and the fold of all events.

    `windows` is (state, attempts) by the window's event id, `keys` those of every transcript record taken in.
    """

    def rows(table: sa.Table, *columns: str, order: str | None = None) -> list[tuple[Any, ...]]:
        chosen = [table.c[name] for name in columns]
        query = sa.select(*chosen).where(table.c.playbook_id == playbook_id)
        return [tuple(row) for row in connection.execute(query.order_by(table.c[order]) if order else query)]

    stored = rows(tables.bullet, "name", *_FIELDS, *_COUNTERS, order="ordinal")
    yield from _bullets({row[0]: row[1:] for row in stored}, playbook)
    yield from _pairs(
        "window", windows, {row[0]: row[1:] for row in rows(tables.session_window, "event_id", "state", "attempts")}
    )
    taken_in = {row[0] for row in rows(tables.record, "key")}
    if taken_in != keys:
        yield f"{len(taken_in ^ keys)} transcript records are taken in by the table or by the events, not by both"
    retractions = {by: (target, int(playbook.active(by))) for target, by in playbook.retractions().items()}
    yield from _pairs(
        "retraction",
        retractions,
        {row[0]: row[1:] for row in rows(tables.retraction, "event_id", "target_id", "active")},
    )
    yield from _pairs("the number of counted tags of", _counted(playbook), _active(connection, playbook_id))
    of_tables = tables.projection
    found = connection.execute(
        sa.select(of_tables.c.policy_id, of_tables.c.updated_at).where(
            of_tables.c.playbook_id == playbook_id, of_tables.c.name == TABLES
        )
    ).one_or_none()
    wanted = (playbook.adopted, playbook.updated_at)
    if found is None or tuple(found) != wanted:
        yield (
            f"counting and time of the last change are {tuple(found) if found else None} in the table, "
            f"{wanted} by the events"
        )


def _bullets(stored: dict[str, tuple[Any, ...]], playbook: Playbook) -> Iterator[str]:
    folded = {entry.name: _row(entry, playbook) for entry in playbook.entries.values()}
    for name in _both(folded, stored):
        if name not in stored or name not in folded:
            yield f"{name} is missing in {'the table' if name not in stored else 'the events'}"
            continue
        for field, wanted, got in zip(_FIELDS + _COUNTERS, folded[name], stored[name], strict=True):
            if wanted != got:
                yield f"{name}: {field} is {str(got)[:60]!r} in the table, {str(wanted)[:60]!r} by the events"
    if list(stored) != list(folded) and stored.keys() == folded.keys():
        yield "the bullets do not stand in the order of their events"


def _row(entry: Entry, playbook: Playbook) -> tuple[Any, ...]:
    return (*(getattr(entry, field) for field in _FIELDS), *entry.baseline, *playbook.counters(entry.name))


def _counted(playbook: Playbook) -> dict[str, tuple[int, int]]:
    """(helpful, harmful) tags that count, by the name they were given to; no policy makes two of them one."""
    counted: dict[str, tuple[int, int]] = {}
    for name in playbook.tagged_names():
        tags = playbook.counted(name)
        helpful = sum(tag[2] == "helpful" for tag in tags)
        if tags:
            counted[name] = (helpful, len(tags) - helpful)
    return counted


def _active(connection: sa.Connection, playbook_id: int) -> dict[str, tuple[int, int]]:
    tag = tables.tag
    query = (
        sa.select(tag.c.name, tag.c.active, tag.c.tag, sa.func.count())
        .where(tag.c.playbook_id == playbook_id)
        # In the order of the index tag_count, so that it streams; inactive rows fall out below.
        .group_by(tag.c.name, tag.c.active, tag.c.tag)
    )
    active: dict[str, tuple[int, int]] = {}
    for name, counts, value, number in connection.execute(query):
        if not counts:
            continue
        helpful, harmful = active.get(name, (0, 0))
        active[name] = (helpful + number, harmful) if value > 0 else (helpful, harmful + number)
    return active


def _pairs(what: str, folded: Mapping[str, tuple[Any, ...]], stored: Mapping[str, tuple[Any, ...]]) -> Iterator[str]:
    for key in _both(folded, stored):
        if folded.get(key) != stored.get(key):
            yield f"{what} {key} is {stored.get(key)} in the table, {folded.get(key)} by the events"


def _both(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))
