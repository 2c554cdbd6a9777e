"""Tokens, cost and tags of reflections, by model, by template and by day.

Invariant: each answer and each tag is in one group of every kind, so the groups of a kind add up to the whole. A tag
belongs to the answer that it was read from; days are those of UTC, as the ledger writes time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reflector.events.registry import WINDOW_TYPES
from reflector.events.spent import Spent
from reflector.ledger.answers import Group as Counted
from reflector.ledger.answers import answers
from reflector.reflection.window import HUMAN, verdicts

if TYPE_CHECKING:
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger

KINDS = ("model", "template", "day")


@dataclass(slots=True)
class Group:
    """Answers and the tags that were read from them.

    undecided  tags that are neither: neutral ones, and those that could not be used
    """

    key: str
    answers: int = 0
    reflections: int = 0
    spent: Spent = field(default_factory=Spent)
    helpful: int = 0
    harmful: int = 0
    undecided: int = 0

    @property
    def helpful_rate(self) -> float | None:
        """Helpful ones of those that are helpful or harmful; None without any."""
        decided = self.helpful + self.harmful
        return self.helpful / decided if decided else None

    def add(self, more: Counted) -> None:
        """Count what a group of answers counts."""
        self.answers += more.answers
        self.reflections += more.reflections
        self.helpful += more.helpful
        self.harmful += more.harmful
        self.undecided += more.undecided
        self.spent += more.spent


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often people judged a citation as a judge had by one of its rules.

    rule     how the judge's reason begins: what it found, without the words that it quotes
    judged   citations that a person judged too
    agreed   those on which both say the same
    """

    judge: str
    rule: str
    judged: int
    agreed: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a ledger; `groups` by kind, each in order of its keys, days oldest first."""

    events: int
    sessions: int
    windows: int
    states: dict[str, int]
    whole: Group
    groups: dict[str, list[Group]]
    agreements: list[Agreement]


def stats(ledger: Ledger, past: Past | None = None) -> Stats:
    """The figures as of now or of a moment; retracted tags are in them, as what a judge said. Raises LedgerError."""
    upto = (past or ledger.head()).position
    with ledger.asking() as sql:
        tally = answers(sql, upto)
    groups: dict[str, dict[str, Group]] = {kind: {} for kind in KINDS}
    whole = Group("")
    whole.add(tally.stray)
    for keys, counts in tally.groups.items():
        whole.add(counts)
        for kind, key in zip(KINDS, keys, strict=True):
            groups[kind].setdefault(key, Group(key)).add(counts)
    ordered = {
        kind: [group for _, group in sorted(found.items()) if group.answers or group.reflections]
        for kind, found in groups.items()
    }
    agreements = _agreements(ledger, tally.people, upto)
    return Stats(upto, tally.sessions, tally.windows, tally.states, whole, ordered, agreements)


def _agreements(ledger: Ledger, sessions: Iterable[str], upto: int) -> list[Agreement]:
    """Return how people and judges agree, by judge and rule: of each the last verdict on a bullet in a session."""
    found: dict[tuple[str, str], list[bool]] = {}
    for session_id in sorted(sessions):
        windows = list(ledger.events(types=WINDOW_TYPES, session_id=session_id, upto=upto))
        if not windows or windows[-1].data is None:
            continue
        said = {(one.name, one.tag.actor): one for one in verdicts(ledger, windows[-1]) if one.tag.position <= upto}
        for (name, actor), one in said.items():
            person = said.get((name, HUMAN))
            if person is not None and actor != HUMAN:
                rule = re.split(r"[:(]", one.reason)[0].strip() or "no reason"
                found.setdefault((actor, rule), []).append(one.verdict == person.verdict)
    return [Agreement(*key, len(same), sum(same)) for key, same in sorted(found.items())]
