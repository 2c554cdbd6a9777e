"""Whether the tables say what the events say.

Invariant: every column that can be rebuilt is compared with the pure fold, so a ledger without drift answers
every question as a rebuilt one would. Each difference is one sentence; nothing is written.

The rows of tags and of windows are compared beside their events; here is the rest. `COMPARED` has a function for each
table, so another table is another function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from reflector.events.fold import Entry
from reflector.ledger.checkpoints import CODE_VERSION, TABLES
from reflector.ledger.statements import Statements
from reflector.mistakes import Finding
from reflector.proof.few import differences
from reflector.proof.folding import Folding
from reflector.proof.reading import stream
from reflector.proof.remedies import REBUILD
from reflector.proof.tally_rows import tally_drift

_FIELDS: Final = tuple(field.name for field in fields(Entry))
_COLUMNS: Final = (*_FIELDS, "helpful", "harmful")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def drift(sql: Statements, folding: Folding) -> Iterator[Finding]:
    """Differences between the tables and the fold of all events."""
    yield from folding.windows.findings()
    for compare in COMPARED:
        for what in compare(sql, folding):
            yield Finding("projection", None, what, REBUILD)


def _bullets(sql: Statements, folding: Folding) -> Iterator[str]:
    totals = folding.evidence.totals(folding.playbook)
    values = attrgetter(*_FIELDS)
    made = {name: (*values(entry), *totals[name]) for name, entry in folding.playbook.entries.items()}
    stored = {row[0]: row for row in stream(sql, "bullet", ", ".join(_COLUMNS), order="ordinal")}
    for name in _both(made, stored):
        if name not in stored or name not in made:
            yield f"{name} is missing in {'the table' if name not in stored else 'the events'}"
            continue
        for what in differences(_COLUMNS, stored[name], made[name]):
            yield f"{name}: {what}"


def _statuses(sql: Statements, folding: Folding) -> Iterator[str]:
    stored = set(map(tuple, stream(sql, "bullet_status", "name, position, status")))
    for name, position, status in sorted(stored ^ folding.statuses, key=repr):
        by = "table" if (name, position, status) in stored else "events"
        yield f"{name} is {status} since {position} by the {by} alone"


def _records(sql: Statements, folding: Folding) -> Iterator[str]:
    apart = _apart(folding.keys, stream(sql, "record", '"key"', order='"key"'))
    if apart:
        yield f"{apart} transcript records are known to the table or to the events, not to both"


def _retractions(sql: Statements, folding: Folding) -> Iterator[str]:
    playbook = folding.playbook
    made = {by: (target, int(playbook.active(by))) for target, by in playbook.retractions().items()}
    stored = {row[0]: row[1:] for row in stream(sql, "retraction", "event_id, target_id, active", order="event_id")}
    for key in _both(made, stored):
        if key not in stored or key not in made:
            yield f"retraction {key} is missing in {'the table' if key not in stored else 'the events'}"
            continue
        for what in differences(("target_id", "active"), stored[key], made[key]):
            yield f"retraction {key}: {what}"


def _tags(_: Statements, folding: Folding) -> Iterator[str]:
    for name, positions in sorted(folding.tags.unlike.items()):
        yield f"of {name}, the tags at {str(positions)[1:-1]} count in the table or by the events, not in both"


def _checkpoints(sql: Statements, folding: Folding) -> Iterator[str]:
    kept = ("code_version", "policy_id", "position", "state_hash", "updated_at")
    of = {row[0]: tuple(row[1:]) for row in stream(sql, "projection", f"name, {', '.join(kept)}", order="name")}
    playbook = folding.playbook
    wanted = (CODE_VERSION, playbook.adopted, 0, "", playbook.updated_at)
    found = of.pop(TABLES, None)
    if found is None:
        yield "version, counting, and time of the last change are missing in the table"
    elif found != wanted:
        yield f"version, counting, and time of the last change: {', '.join(differences(kept, found, wanted))}"
    for name, (version, policy, position, state_hash, updated_at) in of.items():
        # Writing a file is not an event, so only the form of such a checkpoint is checked.
        there = 0 <= position <= playbook.position and _HASH.fullmatch(state_hash) is not None
        if not there or not 0 < version <= CODE_VERSION or (policy, updated_at) != ("", None):
            yield f"the checkpoint {name!r} is not one that reflector writes: {of[name]}"


def _tallies(sql: Statements, folding: Folding) -> Iterator[str]:
    if folding.unread is not None:
        raise folding.unread
    if folding.gapless:  # tails end at positions
        yield from tally_drift(sql, folding.checkpoints)


#: What is compared, table by table.
COMPARED: Final[tuple[Callable[[Statements, Folding], Iterator[str]], ...]] = (
    _bullets,
    _statuses,
    _records,
    _retractions,
    _tags,
    _checkpoints,
    _tallies,
)


def _both(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _apart(one: Iterable[Any], other: Iterable[Any]) -> int:
    """Return how many rows are in one of two sorted streams only."""
    left, right = iter(one), iter(other)
    mine, theirs = next(left, None), next(right, None)
    count = 0
    while mine is not None or theirs is not None:
        if mine == theirs:
            mine, theirs = next(left, None), next(right, None)
        elif theirs is None or (mine is not None and mine < theirs):
            mine, count = next(left, None), count + 1
        else:
            theirs, count = next(right, None), count + 1
    return count
