"""The curator: a model that reads what a reflection wrote, and proposes what the playbook lacks.

Invariant: the tags of a session never depend on it. It is asked after they are in the ledger, in a step of its own, and
sees the reflection's words and the playbook, never the transcript. It may propose additions and new words that
supersede old ones, ten a session at most; a person decides. Its raw answer is in the ledger before anybody reads it,
and each answer is read once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from reflector.curation.changes import BulletRefused
from reflector.curation.proposals import MOST_TEXT, Quote, propose
from reflector.events import event as ev
from reflector.events.event import Event, NewEvent, identity
from reflector.events.sessions import rationale_of
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import sections_text
from reflector.playbook.change import Change
from reflector.playbook.names import SECTIONS
from reflector.reflection import reflection_events as events_of
from reflector.reflection.answers import find_answer
from reflector.reflection.excerpt import estimate_tokens
from reflector.reflection.prompts import TemplateError, find_template
from reflector.reflection.protocol import Answer, BackendError, Completes, trouble_of
from reflector.reflection.runner import Runner
from reflector.reflection.window import is_retracted
from reflector.text.secrets import quote

#: The most proposals of one answer.
MOST_PROPOSED: Final = 10
#: Reflections that are older are left: nobody waits for what they taught.
_AGE: Final = timedelta(days=1)
_MOST_ASKED: Final = 20
_MOST_ATTEMPTS: Final = 3
_ANSWER_TOKENS: Final = 4_096
_MODE: Final = "curator"
_TAG: Final = re.compile(r"<(?=/?(?:playbook|review)\b)", re.IGNORECASE)


def ask(ledger: Ledger, runner: Runner, backend: Completes) -> str:
    """Ask about the reflections of the last day that the runner's backend completed, newest first; return why one was
    not answered, "" where all were.

    No lock is held meanwhile but the model's. Stops at the first failure; what was not asked is asked by a later call.
    Raises LedgerError.
    """
    for completed in _unasked(ledger, runner.backend.name):
        try:
            prompt, template = _prompt(ledger, completed, runner.gate.project)
            if runner.backend.is_model:
                if isinstance(left := runner.gate.left_of_month(ledger), str):
                    return left
                runner.gate.reserve(ledger, estimate_tokens(prompt) + _ANSWER_TOKENS)
            answer = backend.complete(prompt)
        except (BackendError, TemplateError) as error:
            stage = getattr(error, "stage", "template")
            if stage == "budget":  # it waits for the next month, and none of its attempts is used up
                return str(error)
            ledger.append([_failure(ledger, completed, runner.backend.name, stage, str(error))])
            return f"{stage}: {error}"
        finally:
            runner.gate.settle(ledger)
        ledger.append([_answer(completed, runner.backend.name, answer, template)])
    return ""


def propose_answered(ledger: Ledger) -> int:
    """Propose what the answers of the last day say that were not read yet; return how many proposals wait for it.

    The playbook's lock must be held. Raises LedgerError.
    """
    answers = [one for one in _since(ledger, ev.REFLECTION_ANSWERED) if (one.data or {}).get("mode") == _MODE]
    if not answers:
        return 0
    read = {
        q.get("window") for e in ledger.events(types=[ev.CHANGE_PROPOSED]) for q in (e.data or {}).get("evidence", ())
    }
    waiting = 0
    for answer in answers:
        completed = ledger.event(answer.target_id or "")
        if answer.event_id in read or completed is None or completed.data is None:
            continue
        if is_retracted(ledger, completed.event_id) or is_retracted(ledger, completed.target_id or ""):
            continue
        said = Quote(
            quote(str(completed.data.get("analysis") or "a review"), 500), "tool", answer.session_id, answer.event_id
        )
        for change, why in changes_of(str((answer.data or {}).get("answer", ""))):
            with suppress(BulletRefused):
                actor = f"curator/{answer.actor}"
                made = propose(ledger, change, origin="model", trust="tool", reason=why, evidence=[said], actor=actor)
                waiting += made.state == "waiting"
    return waiting


def changes_of(answer: str) -> Iterator[tuple[Change, str]]:
    """Yield (change, why) of each proposal in a model's answer that can be understood, ten at most. Never raises."""
    value = find_answer(answer, ("proposals",)).value or {}
    found = value.get("proposals")
    for entry in found[:MOST_PROPOSED] if isinstance(found, list) else ():
        if not isinstance(entry, Mapping):
            continue
        text, section, name = entry.get("text"), entry.get("section"), entry.get("name")
        why = entry.get("why") if isinstance(entry.get("why"), str) else ""
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_TEXT or section not in SECTIONS:
            continue
        if entry.get("kind") == "add":
            yield Change("add", section=section, text=text.strip()), str(why)
        elif entry.get("kind") == "supersede" and isinstance(name, str):
            yield Change("merge", names=(name.strip("[] "),), section=section, text=text.strip()), str(why)


def _unasked(ledger: Ledger, backend: str) -> Iterator[Event]:
    found = [one for one in _since(ledger, ev.REFLECTION_COMPLETED) if one.actor == backend and one.data is not None]
    for completed in reversed(found[-_MOST_ASKED:]):
        story = ledger.targeting(completed.event_id)
        if any(event.type in (ev.REFLECTION_ANSWERED, ev.EVIDENCE_RETRACTED) for event in story):
            continue
        trouble = trouble_of(story)
        if trouble is None or (trouble.attempts < _MOST_ATTEMPTS and datetime.now(UTC) >= trouble.next_try):
            yield completed


def _since(ledger: Ledger, type_: str) -> list[Event]:
    begin = (datetime.now(UTC) - _AGE).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return list(ledger.events(types=[type_], after=ledger.position_at(begin)))


def _prompt(ledger: Ledger, completed: Event, project: Path) -> tuple[str, str]:
    """Return the prompt about a reflection, and the digest of its template. Raises TemplateError."""
    template = find_template("curator.txt", project)
    data: Mapping[str, Any] = completed.data or {}
    tags = [
        event.data or {}
        for event in ledger.events(types=[ev.BULLET_TAGGED], after=completed.position, upto=completed.position + 200)
        if event.reflection_id == completed.reflection_id
    ]
    lines = [f"[{tag.get('name')}] {tag.get('tag')}: {rationale_of(data, tag) or ''}" for tag in tags]
    review = "\n".join([str(data.get("analysis") or ""), *lines])
    playbook = sections_text(row.bullet for row in ledger.rows() if row.status == "live")
    clean = partial(_TAG.sub, "&lt;")
    return template.fill({"playbook": clean(playbook), "review": clean(review)}), template.sha256


def _answer(completed: Event, backend: str, answer: Answer, template: str) -> NewEvent:
    made = events_of.answered(completed, backend, "content_based", answer, about=(_MODE,))
    data = {**made.data, "mode": _MODE, "template_sha256": template}
    return replace(made, data=data, target_id=completed.event_id)


def _failure(ledger: Ledger, completed: Event, backend: str, stage: str, message: str) -> NewEvent:
    number = sum(event.type == ev.REFLECTION_FAILED for event in ledger.targeting(completed.event_id)) + 1
    data = {"stage": stage, "message": quote(message, 500), "attempts": number, "backend": backend}
    event_id = identity(ev.REFLECTION_FAILED, _MODE, completed.event_id, number)
    return NewEvent(
        ev.REFLECTION_FAILED, event_id, data, backend, session_id=completed.session_id, target_id=completed.event_id
    )
