"""The recorded counts of rules: one event for each recorded window, and the fold over them.

Invariant: a session counts once, however it was cut into windows, and a retracted window counts
nothing. The event's id is derived from the window's records and the digest of the rules, so two
machines that count the same append the same event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from reflector.counts.repeated import Sentence
from reflector.counts.rules import VERSION, Marks, PartCounts, RuleSet, restored, rule_of, rule_set
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity, time_of
from reflector.events.fields import pack_keys, unpack_keys
from reflector.events.folds import fold_ledger
from reflector.events.registry import fold_in
from reflector.events.state import Playbook
from reflector.ledger.store import BulletRow
from reflector.playbook_files.watching import advice_digest, loaded_advice
from reflector.project import Project

#: The file of the counted rules in the user's own folder.
_RULES = "rules.json"


def rules_of(project: Project, rows: Iterable[BulletRow]) -> RuleSet:
    """Return the rules of a project: its bullets, and the lines of the files that agents load. If
    these files cannot be read, return only the bullets.

    They are kept in the user's own folder until a rule changes, because reading them takes longer
    than counting them.
    """
    bullets = [row.text for row in rows if row.status == "live"]
    try:
        state = [VERSION, advice_digest(project.root), bullets]
        if (kept := _kept_rules(project, state)) is not None:
            return kept
        lines = loaded_advice(project.root).rules
    except OSError:
        return rule_set(map(rule_of, bullets))
    in_files = (rule_of(line.text, titles=line.titles, scope=line.scope) for line in lines)
    rules = rule_set([*map(rule_of, bullets), *in_files])
    project.keep(_RULES, {"state": state, "rules": list(rules.rules.values())})
    return rules


def _kept_rules(project: Project, state: Sequence[object]) -> RuleSet | None:
    """Return the rules that were kept in this state; None if there are none."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        kept = project.read_kept(_RULES)
        if kept["state"] == state:
            return restored(kept["rules"])
    return None


def counted_event(window: NewEvent, rules: RuleSet, counts: PartCounts) -> NewEvent:
    """Return the event of the counts of a recorded window."""
    counted = [
        {"rule": place, **{name: bits for name, bits in marks._asdict().items() if bits}}
        for place, key in enumerate(rules.rules)
        if (marks := counts.marks.get(key))
    ]
    data = {
        "rules": pack_keys(rules.rules),
        "counted": counted,
        "steps": counts.steps,
        "began": counts.began if time_of(counts.began) else None,
        "version": VERSION,
    }
    about = (window.actor, window.occurred_at, window.session_id)
    event_id = identity(ev.RULE_COUNTED, window.event_id, rules.digest)
    return NewEvent(ev.RULE_COUNTED, event_id, data, *about, target_id=window.event_id)


def counts_beside(
    project: Project, found: Mapping[str, PartCounts], most: int, since: datetime | None = None
) -> dict[str, PartCounts]:
    """Return the recorded counts that the transcripts do not give, by session: those of the newest
    sessions without a transcript, and those of sessions whose transcript was cut short.

    found  the counts of the transcripts that the command reads, by session
    most   the most sessions, including those of `found`
    since  the earliest beginning of a session; None for any
    """
    if not project.has_ledger():
        return {}
    with project.open_ledger() as ledger:
        recorded = fold_ledger(CountsFold(), ledger)
    cut = {
        session_id: recorded[session_id]
        for session_id, counts in found.items()
        if session_id in recorded and recorded[session_id].steps > counts.steps
    }
    without_transcript = [
        (session_id, counts)
        for session_id, counts in recorded.items()
        if session_id not in found and _is_since(counts.began, since)
    ]
    without_transcript.sort(key=lambda session: session[1].began, reverse=True)
    return {**dict(without_transcript[: max(0, most - len(found))]), **cut}


def _is_since(began: str, since: datetime | None) -> bool:
    time = time_of(began)
    return since is None or (time is not None and time >= since)


def wishes_heard(project: Project, sessions: Set[str]) -> list[Sentence]:
    """Return the wishes that reflector recorded in sessions."""
    if not sessions:
        return []
    with project.open_ledger() as ledger:
        return [
            Sentence(event.data["quote"], event.occurred_at, event.session_id or "")
            for event in ledger.events(types=[ev.WISH_HEARD])
            if event.data and event.session_id in sessions
            if not ledger.retracted(event.target_id or "")
        ]


class CountsFold:
    """The counts of each session, by its id."""

    types: Final = (ev.RULE_COUNTED, ev.EVIDENCE_RETRACTED)

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._book = Playbook()

    def apply(self, event: Event) -> None:
        if event.type == ev.EVIDENCE_RETRACTED:
            fold_in(self._book, event)
        elif not event.fault:
            self._events.append(event)

    def answer(self) -> dict[str, PartCounts]:
        sessions: dict[str, PartCounts] = {}
        steps_of: dict[str, int] = {}
        for event in self._events:
            window_id = event.target_id or ""
            if self._book.active(window_id):
                session = sessions.setdefault(event.session_id or window_id, PartCounts())
                counts = _counts_in(event.facts)
                # Two machines may have counted different rules in the same window.
                counts.steps = max(0, counts.steps - steps_of.setdefault(window_id, 0))
                steps_of[window_id] += counts.steps
                session.join(counts)
        return sessions


def _counts_in(facts: Mapping[str, Any]) -> PartCounts:
    """Return the counts that an event contains."""
    keys = unpack_keys(facts["rules"])
    counts = PartCounts(facts.get("began") or "", facts["steps"], set(keys))
    for counted in facts["counted"]:
        if counted["rule"] < len(keys):
            marks = Marks(*(counted.get(name, 0) for name in Marks._fields))
            counts.add(keys[counted["rule"]], marks)
    return counts
