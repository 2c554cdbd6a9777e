"""Tokens, cost and tags of reflections, by model, by template and by day.

Invariant: each answer and each tag is in one group of every kind, so the groups of a kind add up to the whole. A tag
belongs to the answer that it was read from; days are those of UTC, as the ledger writes time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reflector.audit.weeks import monday
from reflector.ledger.answers import Group, take_out
from reflector.ledger.as_of import Past
from reflector.ledger.usage import answers_at

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

KINDS = ("model", "template", "day")


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a ledger; windows have the `states` of now; `groups` by kind, each in order of its keys, days oldest
    first; `spent` the same by Monday and model."""

    events: int
    sessions: int
    windows: int
    states: dict[str, int]
    whole: Group
    groups: dict[str, list[Group]]
    spent: dict[tuple[str, str], Group]


def stats(ledger: Ledger, past: Past | None = None) -> Stats:
    """The figures as of now or of a moment, without the tags that retractions cover. Raises LedgerError."""
    upto = (past or ledger.head()).position
    tally = answers_at(ledger, past.position if past is not None else None)
    if covered := (past or Past(ledger)).covered():
        with ledger.asking() as sql:
            take_out(sql, upto, covered, tally)
    groups: dict[str, dict[str, Group]] = {kind: {} for kind in KINDS}
    whole, spent = Group(), dict[tuple[str, str], Group]()
    for keys, counts in tally.groups.items():
        whole.add(counts)
        spent.setdefault((monday(keys[2]), keys[0]), Group(keys[0])).add(counts)
        for kind, key in zip(KINDS, keys, strict=True):
            groups[kind].setdefault(key, Group(key)).add(counts)
    ordered = {
        kind: [group for _, group in sorted(found.items()) if group.answers or group.reflections]
        for kind, found in groups.items()
    }
    spent = {key: group for key, group in sorted(spent.items()) if group.answers}
    return Stats(upto, tally.sessions, tally.windows, ledger.window_states(), whole, ordered, spent)
