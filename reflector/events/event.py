"""Events as values.

Invariant: an event's id is derived from the identity of its input, never from a model's wording or
a clock. So the same input, delivered twice, is the same event, and its second append adds nothing.
The input of a command includes its transaction id, a random number. So two commands that create the
same thing create two events, on one machine or on two, and an id never means two things.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from os import urandom
from typing import Any, NamedTuple

SCHEMA_VERSION = 1
#: The largest whole number that every JSON reader keeps exactly.
MAX_INT = 2**53 - 1

PLAYBOOK_IMPORTED = "playbook.imported"
BULLET_PROPOSED = "bullet.proposed"
BULLET_ADDED = "bullet.added"
BULLET_REVISED = "bullet.revised"
BULLET_MOVED = "bullet.moved"
BULLET_REMOVED = "bullet.removed"
BULLET_RESTORED = "bullet.restored"
BULLET_MERGED = "bullet.merged"
BULLET_UNMERGED = "bullet.unmerged"
BULLET_RECOUNTED = "bullet.recounted"
BULLET_ASSERTED = "bullet.asserted"
BULLET_TAGGED = "bullet.tagged"
BULLET_CHECKED = "bullet.checked"
SESSION_RECORDED = "session.recorded"
SESSION_COPIED = "session.copied"
SESSION_OUTCOME = "session.outcome"
RULE_COUNTED = "rule.counted"
REFLECTION_SKIPPED = "reflection.skipped"
REFLECTION_ANSWERED = "reflection.answered"
REFLECTION_COMPLETED = "reflection.completed"
REFLECTION_FAILED = "reflection.failed"
EVIDENCE_RETRACTED = "evidence.retracted"
EVENT_REDACTED = "event.redacted"
POLICY_ADOPTED = "policy.adopted"
LEDGER_MERGED = "ledger.merged"
LEDGER_MOVED = "ledger.moved"
LEDGER_ARRIVED = "ledger.arrived"
TRAJECTORY_RECORDED = "trajectory.recorded"
LESSON_RECORDED = "lesson.recorded"
OUTCOME_OBSERVED = "outcome.observed"
ADVICE_TOLD = "advice.told"
GATE_DECIDED = "gate.decided"
REVISION_ATTEMPTED = "revision.attempted"
CHANGE_PROPOSED = "change.proposed"
CHANGE_APPROVED = "change.approved"
CHANGE_REJECTED = "change.rejected"
CHANGE_MEASURED = "change.measured"
RULES_MOVED = "rules.moved"
WISH_HEARD = "wish.heard"
TRIAL_OPENED = "trial.opened"
TRIAL_CLOSED = "trial.closed"
MEMORY_CHANGED = "memory.changed"

#: The actor of events that a user causes.
HUMAN = "human"
#: The actor of bullets from a file, read by a command or at the first look at a project's
#: playbook.json.
IMPORT = "import"
#: The key of `meta` of an event that only restates the result of a merge.
RESTATED = "restated"
#: The key of a window's `meta` for the model that worked in it.
MODEL = "model"
#: The key of `meta` for the origin of an event that came with a merge.
MERGED = "merged"
#: The key of a retraction's `meta` with the id of an event that changes nothing, so that `verify`
#: accepts that event.
ASIDE = "aside"
#: The key of `meta` of an event that undoes several events: the ids of those besides its target.
UNDOES = "undoes"
#: The key of `meta` under which the events that one command appended have its transaction id.
TX = "tx"
#: (time of the recording, ledger, position): the order in which one ledger would have held the
#: events.
Moment = tuple[str, str, int]


def identity(type_: str, *parts: str | int) -> str:
    """Return an event id: the first 32 hex digits of SHA-256 over the type and the parts of the
    input's identity.
    """
    import hashlib

    text = "\n".join(
        [type_, *(str(part).replace("\\", "\\\\").replace("\n", "\\n") for part in parts)]
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def completion_id(reflection_id: str | None) -> str:
    """Return the id of the event that completes a reflection."""
    return identity(REFLECTION_COMPLETED, reflection_id or "")


def drawn() -> str:
    """Return a new transaction id: 32 hex digits of 128 random bits."""
    return urandom(16).hex()


def tx_of(meta: Mapping[str, Any]) -> str | None:
    """Return the transaction that appended an event to this ledger, from its meta; None if it has
    none.

    An imported event belongs to the import here, whatever command appended it first.
    """
    passage = meta.get(MERGED)
    tx = (passage if isinstance(passage, Mapping) else meta).get(TX)
    return tx if isinstance(tx, str) else None


def also_undone(meta: Mapping[str, Any]) -> list[str]:
    """Return the ids of the events that an event undoes besides its target, from its meta."""
    others = meta.get(UNDOES)
    return [other for other in others if isinstance(other, str)] if isinstance(others, list) else []


def time_of(text: Any) -> datetime | None:
    """Return the time of an ISO 8601 text of an event, in UTC; None for any other text.

    A time without a zone is in UTC.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def written(time: datetime) -> str:
    """Return a time in UTC as the ledger writes it. With microseconds, texts sort in the order of
    the times.
    """
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def latest_time() -> str:
    """Return the latest time that is not in the future. Another clock may be one minute ahead of
    this one.
    """
    return written(datetime.now(UTC) + timedelta(minutes=1))


def as_written(text: str) -> str:
    """Return a time of an event as the ledger writes it; a text that is not a time is returned
    unchanged.
    """
    time = time_of(text)
    return written(time) if time else text


def came_through(meta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield an event's passages, the last one first. A passage is the part of its meta about one
    ledger through which it came.
    """
    passage = meta.get(MERGED)
    while isinstance(passage, Mapping):
        yield passage
        passage = passage.get(MERGED)


def is_place(passage: Mapping[str, Any]) -> bool:
    """Return whether a passage contains a place in its ledger: origin, position and time."""
    texts = [passage.get("recorded_at"), passage.get("origin")]
    texts += [passage.get("moment", ""), passage.get(TX, "")]
    if not all(isinstance(text, str) for text in texts):
        return False
    return type(passage.get("position")) is int and isinstance(passage.get("renamed", {}), dict)


def first_moment(meta: Mapping[str, Any], own: Moment) -> Moment:
    """Return the moment at which an event was first appended; `own` if it came from no other
    ledger.
    """
    moment = own
    for passage in came_through(meta):
        time = passage.get("moment", passage["recorded_at"])
        moment = (time, passage["origin"], passage["position"])
    return moment


def first_origin(meta: Mapping[str, Any]) -> str:
    """Return the ledger in which an event was first appended; "" if it came from no other one."""
    return first_moment(meta, ("", "", 0))[1]


@dataclass(slots=True)  # not frozen: a frozen class takes three times as long to define
class NewEvent:
    """An event to append. `occurred_at` is ISO 8601 in UTC; None means the time of recording."""

    type: str
    event_id: str
    data: Mapping[str, Any]
    actor: str
    occurred_at: str | None = None
    session_id: str | None = None
    reflection_id: str | None = None
    target_id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


@dataclass(slots=True)  # not frozen, because a frozen one takes six times as long to make
class Event:
    """An event as the ledger holds it; docs/ledger-format.md describes `data` for each type.

    `data` is None if its text was redacted or cannot be read; `fault` gives the reason.
    `recorded_by` is the user that was logged in to the server when the event was written; None on
    SQLite. The server adds it to its own row. In a copy of the ledger it differs, but the event is
    the same.
    """

    position: int
    event_id: str
    type: str
    schema_version: int
    occurred_at: str
    recorded_at: str
    actor: str
    session_id: str | None
    reflection_id: str | None
    target_id: str | None
    data: Mapping[str, Any] | None
    data_hash: str
    meta: Mapping[str, Any]
    chain: str
    recorded_by: str | None = field(default=None, compare=False)
    fault: str = field(default="", compare=False, repr=False)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The data; empty if there is none."""
        return self.data or {}

    def fact(self, name: str, default: Any = None) -> Any:
        """Return a field of the data, or the default if there is none."""
        return (self.data or {}).get(name, default)

    @property
    def arrived(self) -> Moment:
        """The moment at which it was first recorded, in any ledger."""
        return first_moment(self.meta, (self.recorded_at, "", self.position))


class Appended(NamedTuple):
    """The place of an event: its first position, and whether this append added it."""

    event_id: str
    position: int
    added: bool
