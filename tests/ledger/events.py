"""Small events, as the intake and the runner append them."""

from collections.abc import Sequence
from typing import Any

from reflector.curation.changes import Step, apply
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.trials.outcome import Outcome, outcome_event


def added(name: str = "pat-001", text: str = "Read the error first", helpful: int = 0, harmful: int = 0) -> NewEvent:
    data = {
        "name": name,
        "section": name.partition("-")[0],
        "text": text,
        "helpful": helpful,
        "harmful": harmful,
        "origin": "test",
    }
    return NewEvent(ev.BULLET_ADDED, identity(ev.BULLET_ADDED, name), data, "human")


def add_bullet(ledger: Ledger, section: str, text: str) -> Step:
    """A bullet as `reflector add` adds it."""
    return apply(ledger, [Change("add", section=section, text=text)], actor="human")[0]


def imported(*bullets: tuple[str, int, int], digest: str = "0" * 64) -> NewEvent:
    items = [
        {"name": name, "section": name.partition("-")[0], "text": f"About {name}", "helpful": up, "harmful": down}
        for name, up, down in bullets
    ]
    data = {"sha256": digest, "format": "1.0", "bullets": items}
    return NewEvent(ev.PLAYBOOK_IMPORTED, identity(ev.PLAYBOOK_IMPORTED, digest), data, "import")


def changed(type_: str, name: str, *key: str | int, **data: Any) -> NewEvent:
    """A bullet revised, moved, removed, recounted or asserted; `key` tells one change from another."""
    return NewEvent(type_, identity(type_, name, *key), {"name": name, **data}, "human")


def moved(to: str = "postgresql://other/ledger") -> NewEvent:
    """The playbook went to another ledger."""
    return NewEvent(ev.LEDGER_MOVED, identity(ev.LEDGER_MOVED, to), {"to": to}, "human")


def arrived(seal: NewEvent) -> NewEvent:
    """The playbook is where its last event says that it went."""
    event_id = identity(ev.LEDGER_ARRIVED, seal.event_id)
    return NewEvent(ev.LEDGER_ARRIVED, event_id, {"at": seal.data["to"]}, "human", target_id=seal.event_id)


def merged(name: str, *sources: str, text: str = "") -> NewEvent:
    """Bullets merged into a new one."""
    data = {"name": name, "section": name.partition("-")[0], "text": text or f"{sources} as one", "sources": [*sources]}
    return NewEvent(ev.BULLET_MERGED, identity(ev.BULLET_MERGED, name), data, "human")


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
    return NewEvent(ev.SESSION_RECORDED, identity(ev.SESSION_RECORDED, number), data, "intake", session_id=session)


def about(type_: str, target: NewEvent, *key: str | int, **data: Any) -> NewEvent:
    """reflection.skipped, answered or failed, of a window."""
    event_id = identity(type_, target.event_id, *key)
    return NewEvent(type_, event_id, data, "rules", session_id=target.session_id, target_id=target.event_id)


def reflected(
    reflection: str, target: NewEvent, *tags: tuple[str, str] | tuple[str, str, str], actor: str = "rules"
) -> list[NewEvent]:
    """A completed reflection on a window and its tags: (name, tag) or (name, tag, disposition)."""
    completed = NewEvent(
        ev.REFLECTION_COMPLETED,
        identity(ev.REFLECTION_COMPLETED, reflection),
        {"analysis": "It went well", "rationales": []},
        actor,
        session_id=target.session_id,
        reflection_id=reflection,
        target_id=target.event_id,
    )
    return [completed, *(tagged(reflection, index, *tag, session=target.session_id) for index, tag in enumerate(tags))]


def tagged(
    reflection: str | None, index: int, name: Any, tag: Any, disposition: str = "counted", session: str | None = "s1"
) -> NewEvent:
    return NewEvent(
        ev.BULLET_TAGGED,
        identity(ev.BULLET_TAGGED, reflection or "none", index),
        {"index": index, "name": name, "tag": tag, "disposition": disposition}
        | ({"followed": "no"} if disposition == "not_followed" else {}),
        "rules",
        session_id=session,
        reflection_id=reflection,
    )


def retracted(target: NewEvent, reason: str = "mistaken") -> NewEvent:
    return NewEvent(
        ev.EVIDENCE_RETRACTED,
        identity(ev.EVIDENCE_RETRACTED, target.event_id),
        {"reason": reason},
        "human",
        target_id=target.event_id,
    )


def redacted(target_id: str, reason: str = "a secret") -> NewEvent:
    event_id = identity(ev.EVENT_REDACTED, target_id)
    return NewEvent(ev.EVENT_REDACTED, event_id, {"reason": reason}, "human", target_id=target_id)


def adopted(counting: str, number: int = 1) -> NewEvent:
    data = {"policy": f"policy-{counting}", "counting": counting}
    return NewEvent(ev.POLICY_ADOPTED, identity(ev.POLICY_ADOPTED, counting, number), data, "human")


_UNKNOWN = ("pat-009", "unknown", "unknown_tag")


#: A short history with every kind of event: three bullets, two windows, a retraction of a tag.
def history() -> list[NewEvent]:
    first, second = window(1, "s1", keys=[1, 2, 3]), window(2, "s2", keys=[4, -5])
    tags = reflected("r1", first, ("pat-001", "helpful"), ("mis-001", "harmful"), ("pat-001", "helpful"))
    return [
        imported(("pat-001", 3, 1), ("mis-001", 0, 4)),
        added("ctx-001"),
        first,
        about(ev.REFLECTION_ANSWERED, first, answer='{"bullet_tags": []}'),
        *tags,
        retracted(tags[3]),
        second,
        about(ev.REFLECTION_FAILED, second, stage="parse", message="no JSON", attempts=1),
        *reflected("r2", second, ("pat-001", "harmful"), ("ctx-001", "neutral", "neutral"), _UNKNOWN),
        changed(ev.BULLET_REVISED, "pat-001", 1, text="Read the whole error first"),
        changed(ev.BULLET_MOVED, "ctx-001", 1, section="oth"),
        changed(ev.BULLET_REMOVED, "mis-001", 1, reason="merged", into="pat-001"),
        changed(ev.BULLET_ASSERTED, "pat-001", 1, helpful=4, harmful=2),
    ]


def checked(target: NewEvent, name: str, tag: str = "neutral", **more: Any) -> NewEvent:
    """What `check` found of a bullet in a window."""
    data = {"index": 0, "name": name, "tag": tag, "disposition": "checked", **more}
    event_id = identity(ev.BULLET_CHECKED, target.event_id, name)
    return NewEvent(ev.BULLET_CHECKED, event_id, data, "agent", session_id=target.session_id, target_id=target.event_id)


def trajectory(key: str = "t1", **more: Any) -> NewEvent:
    """A task of the dataset `sums` that failed, and used one bullet that is here and one that is not."""
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
    return NewEvent(
        ev.TRAJECTORY_RECORDED,
        identity(ev.TRAJECTORY_RECORDED, key),
        data | more,
        "truth",
        session_id=f"trajectory-{key}",
    )


def lesson(key: str = "l1", kind: str = "mistake", text: str = "Add auth middleware", **more: Any) -> NewEvent:
    target = more.pop("target_id", None)
    data = {"kind": kind, "text": text, "task": "api_design", **more}
    return NewEvent(ev.LESSON_RECORDED, identity(ev.LESSON_RECORDED, key), data, "engine", target_id=target)


def outcome(of: NewEvent, kind: str = "success", key: str | int = 1, **more: Any) -> NewEvent:
    at = more.pop("occurred_at", None)
    data = {"kind": kind, "source": "tests", "why": "they pass", **more}
    event_id = identity(ev.OUTCOME_OBSERVED, of.event_id, kind, key)
    return NewEvent(ev.OUTCOME_OBSERVED, event_id, data, "tests", at, target_id=of.event_id)


def told(*lessons: NewEvent, via: str = "retrieval", key: str | int = 1, bullets: Sequence[str] = ()) -> NewEvent:
    ids = [one.event_id for one in lessons]
    data = {"via": via, "lessons": ids, "bullets": list(bullets), "task": "api_design", "query": "auth"}
    return NewEvent(ev.ADVICE_TOLD, identity(ev.ADVICE_TOLD, via, key, *ids), data, "engine", session_id="s1")


def trial(*bullets: str, key: str = "pl1:" + "0" * 64, share: int = 500_000, **more: Any) -> NewEvent:
    data = {"bullets": [*bullets], "exempt": [], "share": share, "outcome": "correction-free", "stop": {}, "key": key}
    return NewEvent(
        ev.TRIAL_OPENED, identity(ev.TRIAL_OPENED, key), data | {"until": "2027-11-01T00:00:00Z"} | more, "human"
    )


def learned() -> list[NewEvent]:
    """A trajectory with its reflection, and a lesson with everything that can happen to one."""
    run = trajectory()
    of_run = lesson("l1", "insight", "Read the sign", target_id=run.event_id, reasoning="The sign is wrong")
    return [
        run,
        *reflected("rt1", run, ("pat-001", "harmful")),
        checked(run, "pat-001", "harmful", followed="no"),
        of_run,
        told(of_run, bullets=["pat-001"]),
        outcome(of_run),
        NewEvent(
            ev.GATE_DECIDED,
            identity(ev.GATE_DECIDED, 1),
            {"policy": "turn", "reflects": True, "trigger": "quality", "signals": {"errors": 1}},
            "gate",
        ),
        NewEvent(
            ev.REVISION_ATTEMPTED,
            identity(ev.REVISION_ATTEMPTED, 1),
            {"initial": 0.4, "retried": 0.76, "improved": True, "reason": "it read the sign"},
            "engine",
            target_id=of_run.event_id,
        ),
        outcome_event(run, run.session_id, Outcome(turns=2, words=1, corrections=1, tests="passes")),
        opened := trial("pat-001"),
        NewEvent(
            ev.TRIAL_CLOSED,
            identity(ev.TRIAL_CLOSED, opened.event_id),
            {
                "verdict": "helps",
                "told": {"sessions": 30, "good": 24},
                "without": {"sessions": 30, "good": 12},
                "difference": "0.400000",
                "interval": {"low": "0.031000", "high": "0.700000"},
                "sessions": "0" * 64,
            },
            "human",
            target_id=opened.event_id,
        ),
    ]
