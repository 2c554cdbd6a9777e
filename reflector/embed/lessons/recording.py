"""Appending what was learned, what came of it and who was told.

Invariant: an event's id comes from the identity of its input, so doing the same twice adds nothing.
Where a caller has no identity to give (a person says "good" once more), the ledger's head is the
identity: each call counts once, also when several processes call at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reflector.events import event as ev
from reflector.events.event import Appended, NewEvent, identity, time_of, written
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
    """Return the event that records a lesson, without secrets; its id is the lesson's.

    key   what tells the lesson from others: a reflection and a number, say. Without it, what it
          says does.
    more  the other fields of `lesson.recorded`; those that are None are left out
    """
    data = _without_secrets({"kind": kind, "text": text, **more})
    parts = key if key is not None else said(data)
    event_id = identity(ev.LESSON_RECORDED, *parts)
    return NewEvent(ev.LESSON_RECORDED, event_id, data, actor, occurred_at, session_id=session_id)


def record_lesson(ledger: Ledger, kind: str, text: str, *, actor: str, **more: Any) -> str:
    """Record a lesson once and return its id; `more` is what `lesson_event` takes. Raises
    LedgerError.

    One that was recorded with other words stays as it is.
    """
    event = lesson_event(kind, text, actor=actor, **more)
    with suppress(Conflict):
        ledger.append([event])
    return event.event_id


def stored_text(text: str, most: int = MAX_LESSON) -> str:
    """Return a text as it is stored: without secrets and invisible characters, cut to `most`
    characters.

    Of a text of more than twice as many, only the beginning is read.
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
    """Record what happened after a lesson was applied.

    source       tests, human, agent, api, retry …
    key          what tells this observation from others of the lesson; without it each call is one
    window_id    the window that it was read from; if that is retracted, so is the outcome
    observed_at  ISO 8601; now if None
    Raises Mistake for an unknown lesson, kind or time, LedgerError.
    """
    if kind not in POLARITY:
        raise Mistake(f"{kind!r} is not a kind of outcome; the kinds are {', '.join(POLARITY)}")
    lesson = ledger.event(lesson_id)
    if lesson is None or lesson.type != ev.LESSON_RECORDED:
        raise Mistake(f"{lesson_id[:80]!r} is not the id of a lesson; see `reflector lessons`")
    said = {"kind": kind, "source": source, "why": why, "window": window_id}
    data = _without_secrets(said, ev.OUTCOME_OBSERVED)
    if (at := time_of(observed_at)) is None and observed_at is not None:
        raise Mistake(f"{observed_at[:80]!r} is not a time; write it as 2026-11-22T08:00:00Z")
    about = (data, actor or source, written(at) if at else None, session_id)
    event = NewEvent(ev.OUTCOME_OBSERVED, "", *about, target_id=lesson_id)
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
    """Record the lessons that a session or a task was told; None where there is none. Raises
    LedgerError.
    """
    told = list(dict.fromkeys(lessons))
    if not told:
        return None
    said = {"via": via, "lessons": told, "bullets": [], "task": task}
    event = NewEvent(
        ev.ADVICE_TOLD, "", _without_secrets(said, ev.ADVICE_TOLD), actor, session_id=session_id
    )
    return _append(ledger, event, (via, session_id or "", task or ""), key)


def told_at_start(
    window: NewEvent,
    digest: str,
    *,
    bullets: Sequence[str],
    lessons: Sequence[str],
    source: str,
    seed: str = "",
) -> NewEvent:
    """Return the event that records what a text at a start told the session of a window.

    digest  SHA-256 of the text, in hex: a window is told a text once
    source  transcript or hook: who says so
    seed    of the draw that chose the bullets, "" where none was left out
    """
    data: dict[str, Any] = {
        "via": "injection",
        "lessons": list(lessons),
        "bullets": list(bullets),
        "digest": digest,
    }
    data |= {"source": source} | ({"seed": seed} if seed else {})
    event_id = identity(
        ev.ADVICE_TOLD, "injection", window.session_id or "", window.event_id, digest
    )
    about = (window.actor, window.occurred_at, window.session_id)
    return NewEvent(ev.ADVICE_TOLD, event_id, data, *about, target_id=window.event_id)


def lessons_beginning(ledger: Reader, beginnings: Sequence[str]) -> list[str]:
    """Return the ids of the lessons that begin with these 8 hex digits, as the text at a start
    names them.
    """
    if not beginnings:
        return []
    with ledger.asking() as sql:
        # The literal condition is that of an index which leaves tags out.
        found = (
            "SELECT event_id FROM event WHERE playbook_id = ? AND type = ? AND type <> "  # noqa: S608
            f"'{ev.BULLET_TAGGED}'"
        )
        found += " AND substr(event_id, 1, 8) IN ? ORDER BY position"
        rows = sql.run(found, ev.LESSON_RECORDED, beginnings).fetchall()
    return [row[0] for row in rows]


def _append(ledger: Ledger, event: NewEvent, about: Key, key: Key | None) -> Appended:
    """Append an event whose identity is what it is about and a key, or without one the next that
    nobody took.
    """

    def made(*parts: str | int) -> NewEvent:
        return replace(event, event_id=identity(event.type, *about, *parts))

    if key is None:
        head = ledger.head()
        return append_next(ledger, head.position, lambda number: made(head.origin, number))
    try:
        (answer,) = ledger.append([made(*key)])
    except Conflict as conflict:  # observed before, in other words
        return Appended(made(*key).event_id, conflict.position, added=False)
    return answer


def append_next(ledger: Ledger, number: int, made: Callable[[int], NewEvent]) -> Appended:
    """Append the event of a number, or of the first one above it that no other process took.
    Raises LedgerError.
    """
    while True:
        with suppress(Conflict):
            (appended,) = ledger.append([made(number)])
            if appended.added:
                return appended
        number += 1


def said(data: Mapping[str, Any]) -> list[str]:
    """Return what a lesson says: its identity where it has no other."""
    return [
        str(data.get(name) or "") for name in ("kind", "task", "mistake", "text", "context_hash")
    ]


def _without_secrets(data: Mapping[str, Any], type_: str = ev.LESSON_RECORDED) -> dict[str, Any]:
    """Return the fields that say something, their prose redacted."""
    prose = {name for name, field in fields_of(type_).items() if field.prose}
    given = {name: value for name, value in data.items() if value is not None}
    return {name: _redacted(value) if name in prose else value for name, value in given.items()}


def _redacted(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_redacted(one) for one in value]
    return redact(value) if isinstance(value, str) else value
