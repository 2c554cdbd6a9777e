"""What a window's reflection reads: its own records, and earlier ones where names are carried.

Invariant: a citation that was decided is never judged again. A window may end before the evidence comes: a
compaction cuts between an advice and the words of the user. So names that earlier windows of a session cited
and left neutral are carried into the next one and judged with what is new; every other citation in the
earlier records is read without its brackets, also in those that were taken in with a copy of the session.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from reflector.ledger import event as ev
from reflector.ledger.event import Event
from reflector.ledger.record_keys import unpack_keys
from reflector.ledger.store import Ledger
from reflector.transcripts.citations import CITATION
from reflector.transcripts.formats import reader_for
from reflector.transcripts.message import Message

_STORY = (ev.SESSION_RECORDED, ev.REFLECTION_COMPLETED, ev.BULLET_TAGGED)


def undecided(ledger: Ledger, session_id: str, agent_id: str | None) -> list[str]:
    """Names that this session (or this subagent of it) cited and whose last tag from it is neutral."""
    verdicts: dict[str, str] = {}
    windows: set[str] = set()
    reflection: str | None = None
    for event in ledger.events(session_id=session_id, types=_STORY):
        data = event.data or {}
        if event.type == ev.SESSION_RECORDED:
            if data.get("agent_id") == agent_id:
                windows.add(event.event_id)
        elif event.type == ev.REFLECTION_COMPLETED:
            reflection = event.reflection_id if event.target_id in windows else None
        elif event.reflection_id == reflection and data.get("disposition") in {"counted", "neutral"}:
            verdicts[data["name"]] = data["tag"]
    return [name for name, tag in verdicts.items() if tag == "neutral"]


def still_carried(ledger: Ledger, recorded: Event) -> list[str]:
    """The names carried into a recorded window that no other window has decided since.

    Windows are not always judged in their order: one that failed is tried again when later ones are done.
    """
    data = recorded.data or {}
    if not data["carried"]:
        return []
    names = undecided(ledger, recorded.session_id or "", data["agent_id"])
    return [name for name in data["carried"] if name in names]


def window_messages(ledger: Ledger, recorded: Event, carried: Collection[str]) -> Iterator[Message]:
    """The messages of a recorded window, oldest first, from the file it was recorded from.

    Where names are carried, the session's earlier records come too, citing nothing but these. What was taken in with a
    fork of the session cites nothing at all, but it may be the evidence, and without it praise would meet older advice.
    Raises OSError and UnknownTranscript.
    """
    data = recorded.data or {}
    own = frozenset(unpack_keys(data["window"]["keys"]))
    earlier = _earlier_keys(ledger, recorded) if carried else frozenset()
    path = Path(data["transcript"]["path"])
    for message in reader_for(path).read_messages(path, limit=data["transcript"]["bytes"]):
        if message.key in own:
            yield message
        elif carried:
            yield _citing_only(message, carried if message.key in earlier else ())


def _earlier_keys(ledger: Ledger, recorded: Event) -> frozenset[int]:
    """Keys of the records that earlier windows of the same session (or subagent) took in."""
    keys: set[int] = set()
    agent_id = (recorded.data or {})["agent_id"]
    before = ledger.events(session_id=recorded.session_id, types=(ev.SESSION_RECORDED,), upto=recorded.position - 1)
    for event in before:
        if event.data is not None and event.data["agent_id"] == agent_id:
            keys.update(unpack_keys(event.data["window"]["keys"]))
    return frozenset(keys)


def _citing_only(message: Message, names: Collection[str]) -> Message:
    """The message with the brackets taken off every other citation."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[1] in names else match[1]

    return message._replace(text=CITATION.sub(kept, message.text), thinking=CITATION.sub(kept, message.thinking))
