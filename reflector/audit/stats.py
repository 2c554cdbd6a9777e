"""Tokens, cost and tags of reflections, by model, by template and by day.

Invariant: each answer and each tag is in one group of every kind, so the groups of a kind add up to the whole. A tag
belongs to the answer that it was read from; days are those of UTC, as the ledger writes time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from reflector.events import event as ev
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.reflection.judging import Spent, spent_on
from reflector.reflection.window import HUMAN, verdicts

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

    def tagged(self, tag: int, number: int) -> None:
        """Count so many tags: 1, -1 or 0."""
        self.helpful += number * (tag > 0)
        self.harmful += number * (tag < 0)
        self.undecided += number * (tag == 0)


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
    groups: dict[str, dict[str, Group]] = {kind: {} for kind in KINDS}
    whole = Group("")
    of_reflection: dict[str, tuple[Group, ...]] = {}
    for reflection, keys, spent, is_answer in _judged(ledger, upto):
        chosen = tuple(groups[kind].setdefault(key, Group(key)) for kind, key in zip(KINDS, keys, strict=True))
        if not is_answer and reflection in of_reflection:
            chosen = of_reflection[reflection]
        of_reflection[reflection] = chosen
        for group in (whole, *chosen):
            group.answers += is_answer
            group.reflections += not is_answer
            if spent is not None:
                group.spent += spent
    unknown = tuple(Group("") for _ in KINDS)
    for reflection_id, tag, number in _tags(ledger, upto):
        for group in (whole, *of_reflection.get(reflection_id or "", unknown)):
            group.tagged(tag, number)
    windows = [window for window in ledger.windows() if window.position <= upto]
    states: dict[str, int] = {}
    for window in windows:
        states[window.state] = states.get(window.state, 0) + 1
    sessions = {window.session_id or window.event_id for window in windows}
    ordered = {
        kind: [group for _, group in sorted(found.items()) if group.answers or group.reflections]
        for kind, found in groups.items()
    }
    return Stats(upto, len(sessions), len(windows), states, whole, ordered, _agreements(ledger, upto))


def _agreements(ledger: Ledger, upto: int) -> list[Agreement]:
    """Return how people and judges agree, by judge and rule: of each the last verdict on a bullet in a session."""
    completed = ledger.events(types=[ev.REFLECTION_COMPLETED], upto=upto)
    sessions = {one.session_id for one in completed if one.actor == HUMAN}
    found: dict[tuple[str, str], list[bool]] = {}
    for session_id in sorted(filter(None, sessions)):
        windows = [row for row in ledger.windows(session_id) if row.position <= upto]
        recorded = ledger.event(windows[-1].event_id) if windows else None
        if recorded is None or recorded.data is None:
            continue
        said = {(one.name, one.tag.actor): one for one in verdicts(ledger, recorded) if one.tag.position <= upto}
        for (name, actor), one in said.items():
            person = said.get((name, HUMAN))
            if person is not None and actor != HUMAN:
                rule = re.split(r"[:(]", one.reason)[0].strip() or "no reason"
                found.setdefault((actor, rule), []).append(one.verdict == person.verdict)
    return [Agreement(*key, len(same), sum(same)) for key, same in sorted(found.items())]


def _judged(ledger: Ledger, upto: int) -> Iterator[tuple[str, tuple[str, str, str], Spent | None, bool]]:
    """(reflection's id, its keys by kind, what it took if known, whether it is an answer) of answers and completions.

    Without the answers themselves, which are most of the bytes.
    """
    with ledger.asking() as sql:
        model, template = sql.text_at("data", "model"), sql.text_at("data", "template_sha256")
        query = (
            f"SELECT reflection_id, type, recorded_at, actor, meta, {model}, {template} FROM event"  # noqa: S608
            f" WHERE playbook_id = ? AND type <> '{ev.BULLET_TAGGED}' AND type IN ('{ev.REFLECTION_ANSWERED}',"
            f" '{ev.REFLECTION_COMPLETED}') AND +position <= ? ORDER BY position"
        )
        rows = sql.run(query, upto).fetchall()
    # Of an answer that was erased, what was read from it or another part of it says which model gave it.
    models = {row[0]: row[5] for row in rows if row[5]}
    templates = {row[0]: row[6] for row in rows if row[6]}
    for reflection, type_, recorded_at, actor, meta, *said in sorted(rows, key=lambda row: row[2]):
        is_answer = type_ == ev.REFLECTION_ANSWERED
        of_model, of_template = said[0] or models.get(reflection), said[1] or templates.get(reflection)
        spent = spent_on(json.loads(meta), of_model or "", asked=False) if is_answer and meta != "{}" else None
        keys = (of_model or actor, (of_template or "none")[:12], recorded_at[:10])
        yield reflection or "", keys, spent, is_answer


def _tags(ledger: Ledger, upto: int) -> Iterator[tuple[str | None, int, int]]:
    """Yield (reflection's id, tag, how many) of all tags; a reflection may come twice."""
    query = "SELECT reflection_id, tag FROM tag WHERE playbook_id = ? AND position <= ?"
    with ledger.asking() as sql:
        rows = sql.run(query, upto)
        while page := rows.fetchmany(10_000):
            for (reflection_id, tag), number in Counter(map(tuple, page)).items():
                yield reflection_id, tag, number
