"""Small events, as the intake and the runner append them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reflector.changes.apply import Step, apply_changes
from reflector.counts.rules import Marks, PartCounts, rule_of, rule_set
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger.store import Ledger
from reflector.playbook.change import KINDS, Change
from reflector.sessions.counted import counted_event
from reflector.trials.outcome import Outcome, outcome_event

_RULES = rule_set([rule_of("Run `make lint` before you commit.")])
_MARKS = dict.fromkeys(_RULES.rules, Marks(run=1, said=1, came_up=1))


def _event(
    type_: str, *key: str | int, by: str = "human", data: dict[str, Any], **of: Any
) -> NewEvent:
    """An event whose id follows from its type and a key."""
    return NewEvent(type_, identity(type_, *key), data, by, **of)


def added(
    name: str = "pat-001", text: str = "Read the error first", helpful: int = 0, harmful: int = 0
) -> NewEvent:
    data = {
        "name": name,
        "section": name.partition("-")[0],
        "text": text,
        "helpful": helpful,
        "harmful": harmful,
        "origin": "test",
    }
    return _event(ev.BULLET_ADDED, name, data=data)


def add_bullet(ledger: Ledger, section: str, text: str) -> Step:
    """A bullet as `reflector add` adds it."""
    return apply_changes(ledger, [Change("add", section=section, text=text)], actor="human")[0]


def imported(*bullets: tuple[str, int, int], digest: str = "0" * 64) -> NewEvent:
    items = [
        {
            "name": name,
            "section": name.partition("-")[0],
            "text": f"About {name}",
            "helpful": up,
            "harmful": down,
        }
        for name, up, down in bullets
    ]
    data = {"sha256": digest, "format": "1.0", "bullets": items}
    return _event(ev.PLAYBOOK_IMPORTED, digest, by="import", data=data)


def changed(type_: str, name: str, *key: str | int, **data: Any) -> NewEvent:
    """A bullet revised, moved, removed, recounted or asserted; `key` tells one change from
    another.
    """
    return _event(type_, name, *key, data={"name": name, **data})


def moved(to: str = "postgresql://other/ledger") -> NewEvent:
    """The playbook went to another ledger."""
    return _event(ev.LEDGER_MOVED, to, data={"to": to})


def arrived(seal: NewEvent) -> NewEvent:
    """The playbook is where its last event says that it went."""
    return _event(
        ev.LEDGER_ARRIVED, seal.event_id, data={"at": seal.data["to"]}, target_id=seal.event_id
    )


def merged(name: str, *sources: str, text: str = "") -> NewEvent:
    """Bullets merged into a new one."""
    data = {
        "name": name,
        "section": name.partition("-")[0],
        "text": text or f"{sources} as one",
        "sources": [*sources],
    }
    return _event(ev.BULLET_MERGED, name, data=data)


def window(number: int = 1, session: str | None = "s1", keys: Sequence[int] = ()) -> NewEvent:
    data = {
        "agent": "claude-code",
        "agent_id": None,
        "trigger": "SessionEnd",
        "transcript": {"path": "/t.jsonl", "bytes": 10},
        "window": {"keys": pack_keys(keys)},
        "cited": [],
        "unknown": [],
        "carried": [],
    }
    return _event(ev.SESSION_RECORDED, number, by="intake", data=data, session_id=session)


def about(type_: str, target: Event | NewEvent, *key: str | int, **data: Any) -> NewEvent:
    """reflection.skipped, answered or failed, of a window."""
    whose = {"session_id": target.session_id, "target_id": target.event_id}
    return _event(type_, target.event_id, *key, by="rules", data=data, **whose)


def reflected(
    reflection: str,
    target: NewEvent,
    *tags: tuple[str, str] | tuple[str, str, str],
    actor: str = "rules",
) -> list[NewEvent]:
    """A completed reflection on a window and its tags: (name, tag) or (name, tag, disposition)."""
    data = {"analysis": "It went well", "rationales": []}
    whose = {
        "session_id": target.session_id,
        "reflection_id": reflection,
        "target_id": target.event_id,
    }
    completed = _event(ev.REFLECTION_COMPLETED, reflection, by=actor, data=data, **whose)
    return [
        completed,
        *(
            tagged(reflection, index, *tag, session=target.session_id)
            for index, tag in enumerate(tags)
        ),
    ]


def tagged(
    reflection: str | None,
    index: int,
    name: Any,
    tag: Any,
    disposition: str = "counted",
    session: str | None = "s1",
) -> NewEvent:
    data = {"index": index, "name": name, "tag": tag, "disposition": disposition}
    data |= {"followed": "no"} if disposition == "not_followed" else {}
    whose = {"session_id": session, "reflection_id": reflection}
    return _event(ev.BULLET_TAGGED, reflection or "none", index, by="rules", data=data, **whose)


def retracted(target: Event | NewEvent, reason: str = "mistaken") -> NewEvent:
    return _event(
        ev.EVIDENCE_RETRACTED, target.event_id, data={"reason": reason}, target_id=target.event_id
    )


def redacted(target_id: str, reason: str = "a secret") -> NewEvent:
    return _event(ev.EVENT_REDACTED, target_id, data={"reason": reason}, target_id=target_id)


def adopted(counting: str, number: int = 1) -> NewEvent:
    return _event(
        ev.POLICY_ADOPTED,
        counting,
        number,
        data={"policy": f"policy-{counting}", "counting": counting},
    )


_UNKNOWN = ("pat-009", "unknown", "unknown_tag")


#: A short history with every kind of event: three bullets, two windows, a retraction of a tag.
def history() -> list[NewEvent]:
    first, second = window(1, "s1", keys=[1, 2, 3]), window(2, "s2", keys=[4, -5])
    tags = reflected(
        "r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"), ("pat-001", "helpful")
    )
    return [
        imported(("pat-001", 3, 1), ("mis-001", 0, 4)),
        added("ctx-001"),
        first,
        about(ev.REFLECTION_ANSWERED, first, answer='{"bullet_tags": []}'),
        *tags,
        retracted(tags[3]),
        second,
        about(ev.REFLECTION_FAILED, second, stage="parse", message="no JSON", attempts=1),
        *reflected(
            "r2", second, ("pat-001", "harmful"), ("ctx-001", "neutral", "neutral"), _UNKNOWN
        ),
        changed(ev.BULLET_REVISED, "pat-001", 1, text="Read the whole error first"),
        changed(ev.BULLET_MOVED, "ctx-001", 1, section="oth"),
        changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"),
        changed(ev.BULLET_ASSERTED, "pat-001", 1, helpful=4, harmful=2),
    ]


def checked(target: NewEvent, name: str, tag: str = "neutral", **more: Any) -> NewEvent:
    """What `check` found of a bullet in a window."""
    data = {"index": 0, "name": name, "tag": tag, "disposition": "checked", **more}
    return replace(about(ev.BULLET_CHECKED, target, name, **data), actor="agent")


def trajectory(key: str = "t1", **more: Any) -> NewEvent:
    """A task of the dataset `sums` that failed, and used one bullet that is here and one that is
    not.
    """
    data = {
        "query": "add",
        "dataset": "sums",
        "answer": "a - b",
        "steps": ["read", "write"],
        "status": "failure",
        "error": "1 failed",
        "cited": ["pat-001"],
        "unknown": ["x"],
        "ground_truth": "a + b",
        "test_report": "test_add failed",
    }
    return _event(
        ev.TRAJECTORY_RECORDED, key, by="truth", data=data | more, session_id=f"trajectory-{key}"
    )


def lesson(
    key: str = "l1", kind: str = "mistake", text: str = "Add auth middleware", **more: Any
) -> NewEvent:
    target = more.pop("target_id", None)
    data = {"kind": kind, "text": text, "task": "api_design", **more}
    return _event(ev.LESSON_RECORDED, key, by="engine", data=data, target_id=target)


def outcome(of: NewEvent, kind: str = "success", key: str | int = 1, **more: Any) -> NewEvent:
    at = more.pop("occurred_at", None)
    data = {"kind": kind, "source": "tests", "why": "they pass", **more}
    whose = {"occurred_at": at, "target_id": of.event_id}
    return _event(ev.OUTCOME_OBSERVED, of.event_id, kind, key, by="tests", data=data, **whose)


def told(
    *lessons: NewEvent, via: str = "retrieval", key: str | int = 1, bullets: Sequence[str] = ()
) -> NewEvent:
    ids = [one.event_id for one in lessons]
    data = {
        "via": via,
        "lessons": ids,
        "bullets": list(bullets),
        "task": "api_design",
        "query": "auth",
    }
    return _event(ev.ADVICE_TOLD, via, key, *ids, by="engine", data=data, session_id="s1")


def trial(
    *bullets: str, key: str = "pl1:" + "0" * 64, share: int = 500_000, **more: Any
) -> NewEvent:
    data = {
        "bullets": [*bullets],
        "exempt": [],
        "share": share,
        "outcome": "correction-free",
        "stop": {},
        "key": key,
    }
    return _event(ev.TRIAL_OPENED, key, data=data | {"until": "2027-11-01T00:00:00Z"} | more)


def learned() -> list[NewEvent]:
    """A trajectory with its reflection, and a lesson with everything that can happen to one."""
    run = trajectory()
    of_run = lesson(
        "l1", "insight", "Read the sign", target_id=run.event_id, reasoning="The sign is wrong"
    )
    opened = trial("pat-001")
    moved = {"file": "CLAUDE.md", "before": "0" * 64, "after": "1" * 64, "rules": 2}
    signals = {"policy": "turn", "reflects": True, "trigger": "quality", "signals": {"errors": 1}}
    line = {"line": 3, "text": "Put all tests into one file."}
    memory = {
        **dict.fromkeys(("agent", "session", "call"), ""),
        "file": "CLAUDE.md",
        "kind": "edited",
        "before": "0" * 64,
        "after": "1" * 64,
        "added": [line],
        "removed": [line],
        "by": "commit",
        "commit": "2" * 40,
        "author": "Ana",
        "source": "git",
    }
    attempt = {"initial": 0.4, "retried": 0.76, "improved": True, "reason": "it read the sign"}
    result = {
        "verdict": "helps",
        "told": {"sessions": 30, "good": 24},
        "without": {"sessions": 30, "good": 12},
        "difference": "0.400000",
        "interval": {"low": "0.031000", "high": "0.700000"},
        "sessions": "0" * 64,
    }
    return [
        run,
        *reflected("rt1", run, ("pat-001", "harmful")),
        checked(run, "pat-001", "harmful", followed="no"),
        of_run,
        told(of_run, bullets=["pat-001"]),
        outcome(of_run),
        _event(ev.GATE_DECIDED, 1, by="gate", data=signals),
        _event(ev.RULES_MOVED, 1, by="import", data=moved),
        _event(ev.MEMORY_CHANGED, 1, by="memory", data=memory),
        _event(ev.REVISION_ATTEMPTED, 1, by="engine", data=attempt, target_id=of_run.event_id),
        _event(ev.SESSION_COPIED, 1, data={"of": "s-9", "records": 4}, target_id=run.event_id),
        outcome_event(
            run, run.session_id, Outcome(turns=2, words=1, corrections=1, tests="passes")
        ),
        counted_event(
            run,
            _RULES,
            PartCounts("2026-11-21T09:00:00Z", 2, set(_RULES.rules), _MARKS),
        ),
        *(
            changed(kind.event, "pat-001", kind.name, **kind.constants)
            for kind in KINDS.values()
            if kind.constants
        ),
        opened,
        _event(ev.TRIAL_CLOSED, opened.event_id, data=result, target_id=opened.event_id),
    ]
