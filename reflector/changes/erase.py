"""Prose erased from the ledger, and the other places that hold it.

Invariant: nothing that counts is lost, and no text is reported as gone that is not. The ledger
erases it from its own files, and the copies of imported playbooks that hold it go too. Events and
other files that hold the same text are named: only a person knows whether they are meant.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from reflector.events import event as ev
from reflector.events.event import Appended, Event
from reflector.events.registry import EVENT_TYPES, WORDING_TYPES
from reflector.events.state import REDACTED
from reflector.ledger.canonical import sealed
from reflector.ledger.errors import LedgerError
from reflector.ledger.redaction import Takes, everything, kept_facts, texts_of
from reflector.ledger.store import Ledger
from reflector.text.secrets import quote

_MAX_REASON: Final = 500
#: A text as short as this is in many places and says nothing about any of them.
_SHORTEST: Final = 8
#: What is looked for everywhere may be a name, but not a syllable.
_SHORTEST_WANTED: Final = 4
_HOLDING_TEXT: Final = frozenset(type_ for type_, kind in EVENT_TYPES.items() if kind.holds_prose)
#: A ledger's own files, which the ledger sweeps itself.
_OWN: Final = frozenset({"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock"})


class ErasureRefused(LedgerError):
    """An event of which nothing can be erased, or nothing any more."""


class Erasure(NamedTuple):
    """What a redaction takes.

    events  each event that loses prose, with the texts that go
    takes   which texts go of an event that holds more
    wanted  the text that was looked for everywhere; None where an event was named
    stays   what holds the wanted text where nothing can be erased: a name, an id, a measurement
    """

    events: tuple[tuple[Event, tuple[str, ...]], ...]
    takes: Takes = everything
    wanted: str | None = None
    stays: tuple[Event, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that go, each once."""
        return tuple(dict.fromkeys(text for _, texts in self.events for text in texts))


def planned(event: Event) -> Erasure:
    """Return what erasing an event's prose would take: no text where all of it was erased before.
    Raises LedgerError for an event without prose.
    """
    kept_facts(event.type, event.data or {})
    return Erasure(((event, texts_of(event.type, _own(event))),))


def of_session(events: Iterable[Event]) -> Erasure:
    """Return what erasing all prose of a session's events would take."""
    found = (
        (event, texts_of(event.type, _own(event)))
        for event in events
        if event.type in _HOLDING_TEXT
    )
    return Erasure(tuple((event, texts) for event, texts in found if texts))


def holding(ledger: Ledger, wanted: str) -> Erasure:
    """What erasing a text wherever the ledger holds it would take. Raises ErasureRefused for one
    too short to mean anything.
    """
    if len(wanted.strip()) < _SHORTEST_WANTED:
        raise ErasureRefused(
            f"{wanted!r} is too short to look for; name at least {_SHORTEST_WANTED} characters"
        )
    forms = _spelt(wanted)

    def takes(text: str) -> bool:
        return any(form in text for form in forms)

    events: list[tuple[Event, tuple[str, ...]]] = []
    stays: list[Event] = []
    for event in ledger.events():
        data = _own(event)
        if texts := texts_of(event.type, data, takes):
            events.append((event, texts))
            data = kept_facts(event.type, data, takes) or {}
        rest = (
            event.event_id,
            event.actor,
            event.session_id,
            event.reflection_id,
            dict(event.meta),
            data,
        )
        if takes(json.dumps(rest, ensure_ascii=False)):
            stays.append(event)
    return Erasure(tuple(events), takes, wanted, tuple(stays))


def erase(ledger: Ledger, erasure: Erasure, why: str) -> list[Appended]:
    """Erase it. The playbook's lock must be held; its holder writes playbook.json.

    What was erased before, but stayed in the file because another process read it, is swept out
    now. Raises LedgerError, LedgerLocked where others kept the file from being swept: the same call
    again does it then.
    """
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise ErasureRefused("the reason is empty; give one with --why, without the text to erase")
    if any(text in reason for text in _looked_for(erasure)):
        raise ErasureRefused(
            "the reason repeats the text to erase, and the reason stays; give one without it"
        )
    ids = [event.event_id for event, _ in erasure.events]
    return ledger.redact(ids, reason=reason, actor="human", takes=erasure.takes)


def echoes(ledger: Ledger, erasure: Erasure) -> list[Event]:
    """Events that still hold prose of the same reflections or proposals, or one of the very
    texts that went.
    """
    found: list[Event] = []
    events = [event for event, _ in erasure.events]
    gone, targets = ({getattr(one, of) for one in events} for of in ("event_id", "target_id"))
    reflections = {one.reflection_id for one in events} - {None}
    redacted = {one.target_id for one in ledger.events(types=(ev.EVENT_REDACTED,))}
    forms = _forms(erasure)
    for other in ledger.events(types=_HOLDING_TEXT):
        if other.event_id in gone or other.data is None or other.type == ev.SESSION_RECORDED:
            continue
        whole = json.dumps(_own(other), ensure_ascii=False)
        is_its = other.reflection_id in reflections or (
            other.event_id in targets and EVENT_TYPES[other.type].all_prose
        )
        is_left = whole != "{}" and other.event_id not in redacted
        if (is_its and is_left) or any(form in whole for form in forms):
            found.append(other)
    return found


def copies(folders: Iterable[Path], erasure: Erasure, more: Iterable[Path] = ()) -> list[Path]:
    """Return the files below some folders, other than the ledger's own, and `more` that hold a text
    that goes, or went.
    """
    forms = [form.encode() for form in _forms(erasure)]
    if not forms:
        return []
    inside = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return [path for path in dict.fromkeys([*inside, *more]) if _holds(path, forms)]


def brought_back(ledger: Ledger, upto: int, texts: Mapping[str, str]) -> set[str]:
    """Return the bullets (text by name) that would be given the very text again that was erased up
    to a position.

    Nobody keeps that text: put in its place, it gives the hash of the event that it was erased
    from.
    """
    found: set[str] = set()
    for event in ledger.events(types=WORDING_TYPES, upto=upto):
        data = dict(event.data or {})
        items = data.get("bullets", ()) if event.type == ev.PLAYBOOK_IMPORTED else [data]
        erased = [
            item["name"] for item in items if item.get("text") == REDACTED and item["name"] in texts
        ]
        if not erased:
            continue
        filled = [
            {**item, "text": texts[item["name"]]} if item["name"] in erased else item
            for item in items
        ]
        data = {**data, "bullets": filled} if event.type == ev.PLAYBOOK_IMPORTED else filled[0]
        if sealed(data)[1] == event.data_hash:
            found.update(erased)
    return found


def _holds(path: Path, wanted: list[bytes]) -> bool:
    if path.is_symlink() or not path.is_file() or path.name in _OWN or not path.stat().st_size:
        return False
    # Mapped, not read: a ledger that was kept aside may be larger than the memory.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(form) >= 0 for form in wanted)


def _spelt(text: str) -> set[str]:
    """Return the forms of a text in a file: as it is, and as JSON, with and without ASCII only,
    once and twice.
    """
    forms = {text}
    for _ in range(2):
        forms |= {
            json.dumps(form, ensure_ascii=ascii_)[1:-1]
            for form in forms
            for ascii_ in (False, True)
        }
    return forms


def _own(event: Event) -> Mapping[str, Any]:
    """Return an event's data; of a redaction only its reason: what else it holds is another
    event's.
    """
    data = event.data or {}
    return {"reason": data.get("reason", "")} if event.type == ev.EVENT_REDACTED else data


def _looked_for(erasure: Erasure) -> list[str]:
    return (
        [text for text in erasure.texts if len(text) >= _SHORTEST]
        if erasure.wanted is None
        else [erasure.wanted]
    )


def _forms(erasure: Erasure) -> set[str]:
    # Canonical JSON in JSON again: an answer holds the analysis with its quotes escaped once more.
    return {form for text in _looked_for(erasure) for form in _spelt(text)}
