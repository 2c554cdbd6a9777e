"""Erases prose from the ledger, and finds the other places that contain it.

Invariant: no count is lost, and a text is reported as erased only if it is. The ledger erases the
text from its own files and from its copies of imported playbooks. Events and other files with the
same text are listed, because only you know whether to erase them too.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reflector.events.event import (
    EVENT_REDACTED,
    PLAYBOOK_IMPORTED,
    Appended,
    Event,
)
from reflector.events.registry import EVENT_TYPES, WORDING_TYPES
from reflector.events.state import REDACTED
from reflector.ledger.canonical import sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.redaction import Takes, everything, kept_facts, texts_of
from reflector.ledger.store import Ledger
from reflector.text.secrets import quote

_MAX_REASON = 500
#: A shorter text occurs in many places and identifies none of them.
_MIN_TEXT_CHARACTERS = 8
#: A text to erase everywhere may be as short as a name, but not as a syllable.
_MIN_WANTED_CHARACTERS = 4
_HOLDING_TEXT = frozenset(
    event_type.name for event_type in EVENT_TYPES.values() if event_type.holds_prose
)
#: A ledger's own files, from which the ledger itself removes erased texts.
_OWN_FILES = frozenset({"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"})


class ErasureRefused(LedgerError):
    """An erasure that is not possible; the text gives the reason."""


class ErasedProse(NamedTuple):
    """An event that loses prose, with the erased texts."""

    event: Event
    texts: tuple[str, ...]


class Erasure(NamedTuple):
    """The prose that a redaction erases.

    events  each event that loses prose
    takes   returns whether a text of an event is erased
    wanted  the text to erase everywhere; None if an event was named
    stays   the events that contain the wanted text in a place that cannot be erased: a name, an id,
            a measurement
    """

    events: tuple[ErasedProse, ...]
    takes: Takes = everything
    wanted: str | None = None
    stays: tuple[Event, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The erased texts, without duplicates."""
        return tuple(dict.fromkeys(text for erased in self.events for text in erased.texts))


def event_erasure(event: Event) -> Erasure:
    """Return the erasure of an event's prose. It has no text if all of the prose was erased before.

    Raises: LedgerError for an event without prose.
    """
    kept_facts(event.type, event.facts)
    return Erasure((ErasedProse(event, texts_of(event.type, _own_data(event))),))


def session_erasure(events: Iterable[Event]) -> Erasure:
    """Return the erasure of all prose in a session's events."""
    prose_events = [event for event in events if event.type in _HOLDING_TEXT]
    erased = [ErasedProse(event, texts_of(event.type, _own_data(event))) for event in prose_events]
    return Erasure(tuple(prose for prose in erased if prose.texts))


def text_erasure(ledger: Ledger, wanted: str) -> Erasure:
    """Return the erasure of a text everywhere in the ledger.

    Raises: ErasureRefused for a text too short to identify anything.
    """
    if len(wanted.strip()) < _MIN_WANTED_CHARACTERS:
        raise ErasureRefused(
            f"{wanted!r} is too short to search for; give at least {_MIN_WANTED_CHARACTERS} "
            "characters"
        )
    forms = _spellings(wanted)

    def takes(text: str) -> bool:
        return any(form in text for form in forms)

    erased: list[ErasedProse] = []
    stays: list[Event] = []
    for event in ledger.events():
        data = _own_data(event)
        if texts := texts_of(event.type, data, takes):
            erased.append(ErasedProse(event, texts))
            data = kept_facts(event.type, data, takes) or {}
        ids = (event.event_id, event.actor, event.session_id, event.reflection_id)
        rest = (*ids, dict(event.meta), data)
        if takes(json.dumps(rest, ensure_ascii=False)):
            stays.append(event)
    return Erasure(tuple(erased), takes, wanted, tuple(stays))


def erase(ledger: Ledger, erasure: Erasure, why: str) -> list[Appended]:
    """Erase the prose. The playbook's lock must be held; the holder of the lock writes
    playbook.json.

    If another process read the ledger's file during an earlier erasure, the prose stayed in the
    file. It is removed now.

    Raises: ErasureRefused for an unusable reason, or LedgerError. LedgerLocked means that another
    process reads the file; the same call later removes the prose from the file.
    """
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise ErasureRefused(
            "the reason is empty; give a reason with --why that does not contain the text to erase"
        )
    if any(text in reason for text in _searched_texts(erasure)):
        raise ErasureRefused(
            "the reason contains the text to erase, but the ledger keeps reasons; give "
            "another reason with --why"
        )
    ids = [erased.event.event_id for erased in erasure.events]
    return ledger.redact(ids, reason=reason, actor="human", takes=erasure.takes)


def echoes(ledger: Ledger, erasure: Erasure) -> list[Event]:
    """Return the events that still contain prose of the same reflections or proposals, or one of
    the erased texts.
    """
    events = [erased.event for erased in erasure.events]
    erased_ids = {event.event_id for event in events}
    forms = _searched_forms(erasure)
    is_related = _relation_to(ledger, events)
    echoing: list[Event] = []
    for event in ledger.events(types=_HOLDING_TEXT):
        if event.event_id in erased_ids or event.data is None:
            continue
        text = json.dumps(_own_data(event), ensure_ascii=False)
        is_empty = text == "{}"
        if (is_related(event) and not is_empty) or any(form in text for form in forms):
            echoing.append(event)
    return echoing


def _relation_to(ledger: Ledger, events: Sequence[Event]) -> Callable[[Event], bool]:
    """Return a function that checks whether an event is related to one of these events: it is of
    the same reflection, or it is the proposal that one of them decides. A redacted event is not
    related.
    """
    target_ids = {event.target_id for event in events}
    reflections = {event.reflection_id for event in events} - {None}
    redacted = {redaction.target_id for redaction in ledger.events(types=(EVENT_REDACTED,))}

    def is_related(event: Event) -> bool:
        is_target = event.event_id in target_ids and EVENT_TYPES[event.type].all_prose
        is_of_same = is_target or event.reflection_id in reflections
        return is_of_same and event.event_id not in redacted

    return is_related


def copies(folders: Iterable[Path], erasure: Erasure, more: Iterable[Path] = ()) -> list[Path]:
    """Return the files that contain an erased text: files below the folders, except the ledger's
    own, and files of `more`.
    """
    forms = [form.encode() for form in _searched_forms(erasure)]
    if not forms:
        return []
    inside = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return [path for path in dict.fromkeys([*inside, *more]) if _file_holds(path, forms)]


def returning_texts(ledger: Ledger, upto: int, texts: Mapping[str, str]) -> set[str]:
    """Return the bullets whose new text is the text that was erased from an event.

    The erased text is not kept. If the new text is put in its place, the data has the hash of the
    original event.

    upto   the position of the last event to check
    texts  the new text by the name of each bullet
    """
    returning: set[str] = set()
    for event in ledger.events(types=WORDING_TYPES, upto=upto):
        # Fill the new texts into the erased places.
        data = dict(event.facts)
        is_import = event.type == PLAYBOOK_IMPORTED
        filled: list[dict[str, Any]] = []
        filled_names: set[str] = set()
        for bullet in data.get("bullets", ()) if is_import else [data]:
            if bullet.get("text") == REDACTED and bullet["name"] in texts:
                filled_names.add(bullet["name"])
                bullet = {**bullet, "text": texts[bullet["name"]]}
            filled.append(bullet)
        if not filled_names:
            continue
        filled_data = {**data, "bullets": filled} if is_import else filled[0]
        if sealed(filled_data)[1] == event.data_hash:
            returning |= filled_names
    return returning


def _file_holds(path: Path, forms: list[bytes]) -> bool:
    is_other_file = path.is_file() and not path.is_symlink() and path.name not in _OWN_FILES
    if not is_other_file or not path.stat().st_size:
        return False
    # Mapped, not read, because an old ledger beside this one may be larger than the memory.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(form) >= 0 for form in forms)


def _spellings(text: str) -> set[str]:
    """Return the forms of a text in a file: unchanged, and as JSON, with and without ASCII only,
    once and twice.
    """
    forms = {text}
    for _ in range(2):
        readable = {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}
        escaped = {json.dumps(form)[1:-1] for form in forms}
        forms |= readable | escaped
    return forms


def _own_data(event: Event) -> Mapping[str, Any]:
    """Return an event's data. For a redaction, return only its reason, because the rest is data of
    another event.
    """
    if event.type == EVENT_REDACTED:
        return {"reason": event.fact("reason", "")}
    return event.facts


def _searched_texts(erasure: Erasure) -> list[str]:
    """Return the texts to look for elsewhere."""
    if erasure.wanted is not None:
        return [erasure.wanted]
    return [text for text in erasure.texts if len(text) >= _MIN_TEXT_CHARACTERS]


def _searched_forms(erasure: Erasure) -> set[str]:
    # Canonical JSON may be inside JSON: an answer contains the analysis, with its quotes escaped
    # once more.
    return {form for text in _searched_texts(erasure) for form in _spellings(text)}
