"""The ends of sessions that no hook brought: an answer that was written after the end, a file that
grew since, a session that was killed.

Invariant: what is found here goes the way of every session, so its records count once, whatever
brings them later. A session that is still at work is left to its own end.

A stop carries the words of the last answer. Where the transcript lacks what they cite when its
session ends, the next drain reads it again, and adds the words from the stop if they are still
missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reflector.events.event import SESSION_RECORDED, Event
from reflector.handover import words
from reflector.reflection.window import transcript_of
from reflector.sessions import answers, opencode_store, spool
from reflector.sessions.intake import Source, find_transcript
from reflector.transcripts.citations import cited_names
from reflector.transcripts.reading import Scan, UnknownTranscript

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project
    from reflector.sessions.spool import Delivery

#: By which a window is recorded that no hook brought.
FOUND: Final = "found"
#: Where a stop carries the last answer: of Claude Code and Codex CLI, and of Gemini CLI.
_ANSWERS: Final = ("last_assistant_message", "prompt_response")
_ENDS: Final = frozenset(("SessionEnd", "SubagentStop", FOUND))
#: How long after its end a transcript is looked at, and how many of them at most.
_GROWS: Final = timedelta(days=2)
_MOST: Final = 20
#: A session that began so long ago and left no transcript is forgotten.
_FORGOTTEN_NS: Final = 24 * 3600 * 1_000_000_000


def answer_of(delivery: Delivery) -> str:
    """Return the last answer that a delivery carries, "" without one."""
    return next(filter(None, (words(dict(delivery.payload), key) for key in _ANSWERS)), "")


def lacks(found: Scan, answer: str) -> bool:
    """Return whether an answer cites what the last texts of its transcript do not cite."""
    cited = {name for _, text in found.answers for name in cited_names(text)}
    return not cited.issuperset(cited_names(answer))


def completed(project: Path, ledger: Ledger, delivery: Delivery) -> Source | None:
    """Return the source of the answer that a delivery carries, a transcript of ours. Raises
    OSError.
    """
    if not delivery.session_id:
        return None
    path = answers.keep_answer(
        project,
        delivery.session_id,
        delivery.agent_id,
        answer_of(delivery),
        delivery.received_at_ns,
    )
    windows = ledger.events(session_id=delivery.session_id, types=(SESSION_RECORDED,))
    agent = next(
        (str(one.facts["agent"]) for one in windows if one.facts.get("agent")), "claude-code"
    )
    return Source(
        path,
        delivery.event,
        None,
        delivery.session_id,
        delivery.agent_id,
        delivery.reason,
        agent=agent,
    )


def left(project: Project, ledger: Ledger, busy: Collection[str | None]) -> Iterator[Source]:
    """Yield what ended without a delivery: sessions that never came to an end, and transcripts that
    grew after it.

    busy  the sessions of which a delivery was recorded just now, or waits for their end
    """
    begun = spool.begun(project.root)
    yield from _killed(project, {id: at for id, at in begun.items() if id not in busy})
    yield from _grown(ledger, {*busy, *begun})


def is_gone(delivery: Delivery) -> bool:
    """Return whether the client that left a stop has ended, as far as it named its process."""
    pid = delivery.payload.get("client_pid")
    if type(pid) is not int or not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _killed(project: Project, begun: dict[str, int]) -> Iterator[Source]:
    """Yield the transcripts of sessions that began and are at rest, without an end or a stop."""
    now, idle_ns = time.time_ns(), project.config.idle_minutes * 60_000_000_000
    for session_id, began_ns in islice(sorted(begun.items(), key=lambda one: -one[1]), _MOST):
        path = None
        with suppress(OSError, ValueError):
            path = opencode_store.finished(session_id) or find_transcript(session_id)
        if path is None:
            if now - began_ns > _FORGOTTEN_NS:
                spool.end(session_id, project.spool_dir, now)
            continue
        is_export = opencode_store.is_export(path)
        with suppress(OSError):
            if is_export or now - max(began_ns, path.stat().st_mtime_ns) > idle_ns:
                yield Source(path, FOUND, None, None if is_export else session_id)
                spool.end(session_id, project.spool_dir, now)


def _grown(ledger: Ledger, open_: Collection[str | None]) -> Iterator[Source]:
    """Yield the transcripts that have grown since their session ended."""
    since = (datetime.now(UTC) - _GROWS).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    last: dict[tuple[str | None, str | None], Event] = {}
    for window in ledger.events(types=[SESSION_RECORDED], after=ledger.position_at(since)):
        key = window.session_id, window.facts.get("agent_id")
        last.pop(key, None)
        last[key] = window
    for (session_id, agent_id), window in islice(reversed(last.items()), _MOST):
        if session_id in open_ or window.facts.get("trigger") not in _ENDS:
            continue
        with suppress(OSError, UnknownTranscript):
            transcript = transcript_of(window)
            path = Path(transcript["path"])
            with suppress(ValueError):
                opencode_store.refresh(path)
            if path.stat().st_size > transcript["bytes"]:
                yield Source(path, str(window.facts["trigger"]), None, session_id, agent_id)
