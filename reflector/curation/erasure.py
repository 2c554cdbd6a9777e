"""Prose erased from the ledger, and what of it stands elsewhere.

Invariant: nothing that counts is lost, and nobody is told that a text is gone where it is not. The ledger erases it
from its own files, and the copies of imported playbooks that hold it go too. Events that say the same, and other files
in which it stands, are named: only a person knows whether they are meant.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reflector.ledger import event as ev
from reflector.ledger.canonical import sealed
from reflector.ledger.engines import sweep
from reflector.ledger.errors import LedgerError
from reflector.ledger.event import Appended, Event
from reflector.ledger.redaction import MIXED, PROSE, kept_facts
from reflector.ledger.store import Ledger
from reflector.playbook.fold import REDACTED
from reflector.reflection.redaction import quote

_MAX_REASON: Final = 500
#: A text as short as this stands in many places and says nothing about any of them.
_SHORTEST: Final = 8
_HOLDING_TEXT: Final = PROSE | MIXED
#: Where prose stands in an event's data; the rest of what is erased with it (a model's name) is no secret.
_PROSE_KEYS: Final = frozenset({"answer", "analysis", "rationale", "problems", "reason", "text", "message", "path"})
#: A ledger's own files, which the ledger sweeps itself.
_OWN: Final = frozenset({"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock", "ledger.db.rebuild"})


class ErasureRefused(LedgerError):
    """An event of which nothing can be erased, or nothing any more."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """What a redaction takes: the event, the texts that go, and (of an import) the bullets whose texts they are.

    earlier  the position of the redaction that erased it before, None where nothing was erased yet
    """

    event: Event
    texts: tuple[str, ...]
    bullets: tuple[str, ...] | None = None
    earlier: int | None = None


def planned(ledger: Ledger, event: Event, bullets: Collection[str] = ()) -> Erasure:
    """What erasing an event's prose would take; `bullets` names those of an import. Raises ErasureRefused."""
    if bullets and event.type != ev.PLAYBOOK_IMPORTED:
        raise ErasureRefused(f"only a playbook.imported holds several bullets; position {event.position} is none")
    for redaction in ledger.targeting(event.event_id):
        if redaction.type == ev.EVENT_REDACTED:
            return Erasure(event, (), earlier=redaction.position)
    data = event.data or {}
    chosen = tuple(bullets) or None
    there = [item["name"] for item in data.get("bullets", ())] if chosen else []
    if strange := [name for name in bullets if name not in there]:
        raise ErasureRefused(f"{', '.join(strange)} did not come with the import at position {event.position}")
    kept = kept_facts(event.type, data, chosen)
    texts = tuple(dict.fromkeys(_gone(data, kept or {})))
    return Erasure(event, texts, chosen)


def erase(ledger: Ledger, erasure: Erasure, why: str, *, actor: str = "human") -> Appended:
    """Erase it. The playbook's lock must be held; playbook.json is written by whoever holds it.

    What was erased before, but stayed in the file because somebody read it, is swept out now.
    Raises LedgerError, LedgerLocked where others kept the file from being swept: the same call again does it then.
    """
    if erasure.earlier is not None:
        sweep(ledger.engine)
        (redaction,) = ledger.at([erasure.earlier])
        return Appended(redaction.event_id, redaction.position, added=False)
    reason = quote(why, _MAX_REASON)
    if not reason:
        raise ErasureRefused("the reason is empty; say with --why why, without what is to be erased")
    if any(text in reason for text in erasure.texts if len(text) >= _SHORTEST):
        raise ErasureRefused("the reason repeats the text that is to be erased, and would stay; say it without")
    return ledger.redact(erasure.event.event_id, reason=reason, actor=actor, bullets=erasure.bullets)


def echoes(ledger: Ledger, erasure: Erasure) -> list[Event]:
    """Events that still hold prose of the same reflection or proposal, or one of the very texts that went."""
    found: dict[int, Event] = {}
    event = erasure.event
    looked_for = [text for text in erasure.texts if len(text) >= _SHORTEST]
    # Canonical JSON in JSON again: an answer holds the analysis with its quotes escaped once more.
    spelt = {form for text in looked_for for form in _spelt(text)}
    for other in ledger.events(types=_HOLDING_TEXT):
        if other.event_id == event.event_id or other.data is None or other.type == ev.SESSION_RECORDED:
            continue
        related = event.reflection_id is not None and other.reflection_id == event.reflection_id
        related = related or (other.event_id == event.target_id and other.type in PROSE)
        whole = json.dumps(other.data, ensure_ascii=False)
        if (related and whole != "{}" and not _is_erased(ledger, other)) or any(form in whole for form in spelt):
            found[other.position] = other
    return [found[position] for position in sorted(found)]


def forget_copies(kept: Path, erasure: Erasure) -> list[Path]:
    """Remove the copies of imported playbooks in which a text that went still stands; which they were."""
    found = copies(kept, erasure)
    for path in found:
        path.unlink()
    return found


def copies(folder: Path, erasure: Erasure) -> list[Path]:
    """Files below a folder, other than the ledger's own, in which a text that went still stands."""
    wanted = [form.encode() for text in erasure.texts if len(text) >= _SHORTEST for form in _spelt(text)]
    return [path for path in sorted(folder.rglob("*")) if wanted and _holds(path, wanted)]


def brought_back(ledger: Ledger, upto: int, texts: Mapping[str, str]) -> set[str]:
    """The bullets (text by name) that would be given the very text again that was erased up to a position.

    Nobody keeps that text: put in its place, it gives the hash of the event that it was erased from.
    """
    found: set[str] = set()
    for event in ledger.events(types=[ev.PLAYBOOK_IMPORTED, ev.BULLET_ADDED, ev.BULLET_REVISED], upto=upto):
        items = (event.data or {}).get("bullets") if event.type == ev.PLAYBOOK_IMPORTED else [event.data or {}]
        erased = [item["name"] for item in items or () if item.get("text") == REDACTED and item["name"] in texts]
        if not erased:
            continue
        filled = [{**item, "text": texts[item["name"]]} if item["name"] in erased else item for item in items or ()]
        data = {**(event.data or {}), "bullets": filled} if event.type == ev.PLAYBOOK_IMPORTED else filled[0]
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
    """How a text stands in a file: as it is, and as JSON writes it, with and without ASCII only, once and twice."""
    forms = {text}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=ascii_)[1:-1] for form in forms for ascii_ in (False, True)}
    return forms


def _is_erased(ledger: Ledger, event: Event) -> bool:
    return any(other.type == ev.EVENT_REDACTED for other in ledger.targeting(event.event_id))


def _gone(before: Any, after: Any, *, prose: bool = False) -> Iterator[str]:
    """Every prose of a value that another one does not hold at the same place."""
    if isinstance(before, str):
        if prose and before not in (after, "", REDACTED):
            yield before
    elif isinstance(before, Mapping):
        for key, value in before.items():
            there = after.get(key) if isinstance(after, Mapping) else None
            yield from _gone(value, there, prose=key in _PROSE_KEYS)
    elif isinstance(before, list | tuple):
        for index, value in enumerate(before):
            there = after[index] if isinstance(after, list | tuple) and index < len(after) else None
            yield from _gone(value, there, prose=prose)
