"""Appends lessons, their outcomes and the sessions that were shown them.

Invariant: an event's id is derived from the identity of its input, so a repetition adds nothing. If
the input has no identity (for example, a user types "good" again), the ledger's head is the
identity. Then each call counts once, even if several processes call at the same moment.

Programs record with these functions (docs/learning.md), and so do intake, `lessons outcome` and the
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reflector.events.event import (
    ADVICE_TOLD,
    BULLET_TAGGED,
    LESSON_RECORDED,
    OUTCOME_OBSERVED,
    Appended,
    Event,
    NewEvent,
    identity,
    time_of,
    written,
)
from reflector.events.lessons import MAX_LESSON, POLARITY
from reflector.events.registry import fields_of
from reflector.ledger.errors import Conflict
from reflector.ledger.reader import Reader
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.text.bounds import visible, whole_end
from reflector.text.secrets import redact

#: Parts of an identity.
Key = Sequence[str | int]


def lesson_event(
    kind: str,
    text: str,
    *,
    actor: str,
    key: Key | None = None,
    session_id: str | None = None,
    occurred_at: str | None = None,
    **more: Any,
) -> NewEvent:
    """Return the event that records a lesson, without secrets. The event's id is the lesson's id.

    key   the identity of the lesson, for example a reflection and a number; None for its own texts
    more  the other fields of `lesson.recorded`; those that are None are omitted
    """
    data = _without_secrets({"kind": kind, "text": text, **more})
    parts = key if key is not None else identity_texts(data)
    event_id = identity(LESSON_RECORDED, *parts)
    return NewEvent(LESSON_RECORDED, event_id, data, actor, occurred_at, session_id=session_id)


def record_lesson(ledger: Ledger, kind: str, text: str, *, actor: str, **more: Any) -> str:
    """Record a lesson once and return its id. A recorded lesson stays unchanged if the same id
    comes with other words.

    more  the other arguments of `lesson_event`

    Raises:
        LedgerError: the ledger cannot be written.
    """
    event = lesson_event(kind, text, actor=actor, **more)
    with suppress(Conflict):
        ledger.append([event])
    return event.event_id


def stored_text(text: str, most: int = MAX_LESSON) -> str:
    """Return a text as it is stored: without secrets and invisible characters, cut to `most`
    characters.

    If the text is longer than twice `most`, only its beginning is read.
    """
    return redact(visible(text[: whole_end(text, 2 * most)]))[:most]


def observe_outcome(
    ledger: Ledger,
    lesson_id: str,
    kind: str,
    why: str = "",
    *,
    source: str,
    key: Key | None = None,
    actor: str | None = None,
    session_id: str | None = None,
    window_id: str | None = None,
    observed_at: str | None = None,
) -> Appended:
    """Record an outcome of a lesson that was applied.

    source       tests, human, agent, api, retry …
    key          the identity of this observation among those of the lesson; None for a new one at
                 each call
    window_id    the window in which it was found; if that is retracted, so is the outcome
    observed_at  ISO 8601; None for now

    Raises:
        Mistake: the lesson, the kind or the time does not exist.
        LedgerError: the ledger cannot be read or written.
    """
    if kind not in POLARITY:
        raise Mistake(f"{kind!r} is not a kind of outcome; the kinds are {', '.join(POLARITY)}")
    lesson = ledger.event(lesson_id)
    if lesson is None or lesson.type != LESSON_RECORDED:
        raise Mistake(f"{lesson_id[:80]!r} is not the id of a lesson; see `reflector lessons`")
    time = time_of(observed_at)
    if time is None and observed_at is not None:
        raise Mistake(f"{observed_at[:80]!r} is not a time; write it as 2026-11-22T08:00:00Z")
    outcome = {"kind": kind, "source": source, "why": why, "window": window_id}
    event = NewEvent(
        OUTCOME_OBSERVED,
        "",
        _without_secrets(outcome, OUTCOME_OBSERVED),
        actor or source,
        occurred_at=written(time) if time else None,
        session_id=session_id,
        target_id=lesson_id,
    )
    return _append(ledger, event, (lesson_id, kind, source), key)


def record_told(
    ledger: Ledger,
    lessons: Iterable[str],
    *,
    via: str,
    actor: str,
    key: Key | None = None,
    session_id: str | None = None,
    task: str | None = None,
) -> Appended | None:
    """Record the lessons that were shown to a session or a task; return None without lessons.

    Raises:
        LedgerError: the ledger cannot be read or written.
    """
    lesson_ids = list(dict.fromkeys(lessons))
    if not lesson_ids:
        return None
    telling = {"via": via, "lessons": lesson_ids, "bullets": [], "task": task}
    data = _without_secrets(telling, ADVICE_TOLD)
    event = NewEvent(ADVICE_TOLD, "", data, actor, session_id=session_id)
    return _append(ledger, event, (via, session_id or "", task or ""), key)


def told_at_start(
    window: NewEvent | Event,
    digest: str,
    *,
    bullets: Sequence[str],
    lessons: Sequence[str],
    source: str | None,
    seed: str = "",
    via: str = "injection",
) -> NewEvent:
    """Return the event that records the advice in the text at a session's start.

    window  the session's window that began with the text
    digest  SHA-256 of the text, in hex, because a window records the same text only once
    source  the evidence: transcript or hook; None for rules of a file that the client loads
    seed    of the draw that chose the bullets; "" if all of them were shown
    """
    data: dict[str, Any] = {
        "via": via,
        "lessons": list(lessons),
        "bullets": list(bullets),
        "digest": digest,
    }
    if source:
        data["source"] = source
    if seed:
        data["seed"] = seed
    parts = (via, window.session_id or "", window.event_id, digest)
    return NewEvent(
        ADVICE_TOLD,
        identity(ADVICE_TOLD, *parts),
        data,
        window.actor,
        occurred_at=window.occurred_at,
        session_id=window.session_id,
        target_id=window.event_id,
    )


def lessons_beginning(ledger: Reader, beginnings: Sequence[str]) -> list[str]:
    """Return the ids of the lessons that begin with these 8 hex digits, as the text at a session's
    start names them.
    """
    if not beginnings:
        return []
    # The literal condition is that of an index without tags.
    query = (
        "SELECT event_id FROM event WHERE playbook_id = ?"  # noqa: S608
        f" AND type = ? AND type <> '{BULLET_TAGGED}'"
        " AND substr(event_id, 1, 8) IN ? ORDER BY position"
    )
    return [event_id for (event_id,) in ledger.query(query, LESSON_RECORDED, beginnings)]


def _append(ledger: Ledger, event: NewEvent, subject: Key, key: Key | None) -> Appended:
    """Append an event. Its identity is its subject with a key, or with the next number if there is
    no key.
    """

    def identified(*parts: str | int) -> NewEvent:
        return replace(event, event_id=identity(event.type, *subject, *parts))

    if key is None:
        head = ledger.head()
        return append_next(ledger, head.position, lambda number: identified(head.origin, number))
    try:
        (appended,) = ledger.append([identified(*key)])
    except Conflict as conflict:  # already recorded, with a different text
        return Appended(identified(*key).event_id, conflict.position, added=False)
    return appended


def append_next(ledger: Ledger, number: int, numbered: Callable[[int], NewEvent]) -> Appended:
    """Append an event with a number. If another process took the number, use the next free one.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    while True:
        with suppress(Conflict):
            (appended,) = ledger.append([numbered(number)])
            if appended.added:
                return appended
        number += 1


def identity_texts(facts: Mapping[str, Any]) -> list[str]:
    """Return the texts of a lesson, which identify it if it does not have another identity."""
    fields = ("kind", "task", "mistake", "text", "context_hash")
    return [str(facts.get(field) or "") for field in fields]


def _without_secrets(facts: Mapping[str, Any], type_: str = LESSON_RECORDED) -> dict[str, Any]:
    """Return the fields of an event that are not None, with redacted prose."""
    fields = fields_of(type_)
    data = {}
    for name, value in facts.items():
        is_prose = name in fields and fields[name].prose is not None
        if value is not None:
            data[name] = _redacted(value) if is_prose else value
    return data


def _redacted(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_redacted(element) for element in value]
    return redact(value) if isinstance(value, str) else value
