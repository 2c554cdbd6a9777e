"""The ends of sessions that no hook delivered: an answer that was written after the end, a file
that grew later, a killed session. The drain uses this module.

Invariant: a session that is found here is recorded like every other session, so its records count
once, even if a hook delivers them later. A session that is still active is not touched.

A stop contains the words of the last answer. If the transcript lacks the citations of this answer
when its session ends, the next drain reads it again, and adds the words from the stop if they are
still missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.events.event import SESSION_RECORDED
from reflector.handover import STOPS, words
from reflector.reflection.window import transcript_of
from reflector.sessions import answers, opencode_store, spool
from reflector.sessions.intake import Source, find_transcript, safe_id
from reflector.transcripts.citations import cited_names
from reflector.transcripts.reading import Scan, UnknownTranscript

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project
    from reflector.sessions.spool import Delivery

#: The trigger of a window that was recorded without a hook.
FOUND = "found"
#: The keys of the last answer in a Stop: of Claude Code and Codex CLI, and of Gemini CLI.
_ANSWERS = ("last_assistant_message", "prompt_response")
_ENDS = frozenset(("SessionEnd", "SubagentStop", FOUND))
#: The time after the end of a session in which its transcript may grow.
_GROWS = timedelta(days=2)
#: The largest number of sessions that are examined.
_MOST_SESSIONS = 20
#: A session without a transcript is forgotten this time after its beginning.
_FORGOTTEN_NS = 24 * 3600 * 1_000_000_000


def answer_of(delivery: Delivery) -> str:
    """Return the last answer that a delivery carries, "" without one."""
    payload = dict(delivery.payload)
    return next(filter(None, (words(payload, key) for key in _ANSWERS)), "")


def lacks(scan: Scan, answer: str) -> bool:
    """Return whether an answer cites bullets that the last texts of its transcript do not cite."""
    cited = {name for _, text in scan.answers for name in cited_names(text)}
    return not cited.issuperset(cited_names(answer))


def settling(delivery: Delivery, scan: Scan) -> Callable[[Delivery], None]:
    """Return the function that ends a recorded delivery, whose transcript was scanned.

    A stop carries the session's last answer. If the transcript lacks this answer, the stop is kept,
    so that the next drain adds the answer. The stop is the delivery, or precedes it.
    """
    if delivery.event == "SessionEnd":
        stop = spool.stop_of(delivery)
        if stop is not None and lacks(scan, answer_of(stop)):
            spool.keep_unanswered(stop)
    elif delivery.event in (*STOPS, "SubagentStop") and lacks(scan, answer_of(delivery)):
        return spool.keep_unanswered
    return spool.settle_delivery


def answer_source(project: Path, ledger: Ledger, delivery: Delivery) -> Source | None:
    """Return the source of the answer that a delivery carries, which is written to a transcript of
    ours. None for a delivery without a session.

    Raises:
        OSError: the transcript cannot be written
    """
    session_id = delivery.session_id
    agent_id = delivery.agent_id
    if not session_id:
        return None
    answer = answer_of(delivery)
    path = answers.keep_answer(project, session_id, agent_id, answer, delivery.received_at_ns)
    windows = ledger.events(session_id=session_id, types=(SESSION_RECORDED,))
    agents = (str(window.facts["agent"]) for window in windows if window.fact("agent"))
    agent = next(agents, "claude-code")
    event = delivery.event
    reason = delivery.reason
    return Source(path, event, None, session_id, agent_id, reason, agent=agent)


def undelivered(project: Project, ledger: Ledger, busy: Collection[str | None]) -> Iterator[Source]:
    """Yield the sessions that ended without a delivery: those without an end, and transcripts that
    grew after it.

    busy  the sessions with a delivery that was recorded just now, or that waits for their end
    """
    begun = spool.begun(project.root)
    idle = {session_id: ns for session_id, ns in begun.items() if session_id not in busy}
    yield from _killed(project, idle)
    yield from _grown(ledger, {*busy, *begun})


def is_without_words(ledger: Ledger, delivery: Delivery, transcript: Path) -> bool:
    """Return whether a delivery never had anything to record, so that nothing is lost.

    An empty transcript has no words. A missing one may have been lost, except in two cases: a
    client's own summariser run, and a session that was opened and closed without a word. The hook
    reports only the start and the end of such a session, because a turn would have left its Stop.
    """
    try:
        return transcript.stat().st_size == 0 and not delivery.transcript_bytes
    except FileNotFoundError:
        pass
    except OSError:
        return False
    if delivery.transcript_bytes is not None:
        return False
    if delivery.event == "SubagentStop":
        return True
    session_id = safe_id(delivery.session_id) if delivery.event == "SessionEnd" else None
    if session_id is None or spool.stop_of(delivery):
        return False
    return not ledger.windows(session_id)


def is_gone(delivery: Delivery) -> bool:
    """Return whether the client that left a Stop has ended. False if it did not name its
    process.
    """
    pid = delivery.payload.get("client_pid")
    if type(pid) is not int or not 0 < pid < 1 << 31:
        return False
    try:
        os.kill(pid, 0)  # which only checks that the process exists
    except ProcessLookupError:
        return True
    except OSError:  # it exists, and is another user's
        return False
    return False


def _killed(project: Project, began: dict[str, int]) -> Iterator[Source]:
    """Yield the transcripts of idle sessions that began, and have neither an end nor a Stop.

    began  the time in nanoseconds since the epoch at which each session began, by its id
    """
    now = time.time_ns()
    idle_ns = project.config.idle_minutes * 60_000_000_000
    newest = sorted(began, key=lambda session_id: -began[session_id])[:_MOST_SESSIONS]
    for session_id in newest:
        began_ns = began[session_id]
        path = None
        with suppress(OSError, ValueError):
            path = opencode_store.write_finished_export(session_id) or find_transcript(session_id)
        if path is None:  # perhaps it will come
            if now - began_ns > _FORGOTTEN_NS:
                spool.end(session_id, project.spool_dir, now)
            continue
        is_export = opencode_store.is_export(path)
        with suppress(OSError):
            last_ns = max(began_ns, path.stat().st_mtime_ns)
            if is_export or now - last_ns > idle_ns:
                yield Source(path, FOUND, None, None if is_export else session_id)
                spool.end(session_id, project.spool_dir, now)


def _grown(ledger: Ledger, busy: Collection[str | None]) -> Iterator[Source]:
    """Yield the transcripts that have grown since their session ended, newest first."""
    since = (datetime.now(UTC) - _GROWS).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    checked: set[tuple[str | None, str | None]] = set()
    for window in ledger.newest(SESSION_RECORDED):
        session_id = window.session_id
        agent_id = window.fact("agent_id")
        if window.recorded_at <= since or len(checked) == _MOST_SESSIONS:
            return
        if (session_id, agent_id) in checked:  # an earlier window of the same session
            continue
        checked.add((session_id, agent_id))
        trigger = window.fact("trigger")
        if session_id in busy or trigger not in _ENDS:
            continue
        with suppress(OSError, UnknownTranscript):
            transcript = transcript_of(window)
            path = Path(transcript["path"])
            with suppress(ValueError):
                opencode_store.refresh_export(path)
            if path.stat().st_size > transcript["bytes"]:
                yield Source(path, trigger, None, session_id, agent_id)
