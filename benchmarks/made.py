"""Generated ledgers and transcripts of any size, which are the same on every machine.

Invariant: the result only depends on the arguments, not on a clock or a random number, so that two
runs measure the same work. Shapes and sizes are those of real sessions, but no text of a real
session is used.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger.store import Ledger

BULLETS = 200
#: A bullet that is tagged once in each of the first `MARKS` sessions, in a ledger of any size.
MARKED, MARKS = "mis-900", 20
_SESSION = 10
_PROSE = """the run of the parser shows that a value is
kept twice and the second one wins so I read the module again before I change it because the tests
around it are few and what they hold is not what the page says"""
_WORDS = _PROSE.split()


def playbook() -> NewEvent:
    """Return the import with which every made ledger begins."""
    names = [f"pat-{number:03d}" for number in range(BULLETS)] + [MARKED]
    bullets = [
        {"name": n, "section": n[:3], "text": f"{n}: {_text(n, 14)}", "helpful": 0, "harmful": 0}
        for n in names
    ]
    return NewEvent(
        ev.PLAYBOOK_IMPORTED,
        identity("made", "playbook"),
        {"format": "dict", "bullets": bullets},
        actor="import",
    )


def session(number: int) -> list[NewEvent]:
    """Return ten events: a window, its answer, the completion and seven tags."""
    session_id = _uuid("session", number)
    window_id = identity(ev.SESSION_RECORDED, session_id)
    reflection_id = identity("reflection", window_id)
    keys = pack_keys(
        int.from_bytes(sha256(f"{number}/{n}".encode()).digest()[:8], "big", signed=True)
        for n in (1, 2)
    )
    recorded = NewEvent(
        ev.SESSION_RECORDED,
        window_id,
        {
            "agent": "claude-code",
            "agent_id": None,
            "trigger": "SessionEnd",
            "transcript": {
                "path": f"/home/user/.claude/projects/p/{session_id}.jsonl",
                "bytes": 51_234,
            },
            "window": {
                "mode": "new",
                "first": _uuid("a", number),
                "last": _uuid("b", number),
                "keys": keys,
            },
            "cited": [f"pat-{number % BULLETS:03d}"],
            "carried": [],
        },
        actor="hook:SessionEnd",
        session_id=session_id,
    )
    answered = NewEvent(
        ev.REFLECTION_ANSWERED,
        identity(ev.REFLECTION_ANSWERED, reflection_id),
        {
            "mode": "citation_guided",
            "backend": "rules",
            "model": None,
            "answer": _text(session_id, 40),
        },
        actor="rules",
        session_id=session_id,
        reflection_id=reflection_id,
        target_id=window_id,
    )
    return [recorded, answered, *reflection(number, 7)]


def reflection(number: int, tags: int) -> list[NewEvent]:
    """Return the events of one transaction of the runner: a reflection's completion and its
    tags.
    """
    session_id = _uuid("session", number)
    window_id = identity(ev.SESSION_RECORDED, session_id)
    reflection_id = identity("reflection", window_id)
    names = [f"pat-{(number * 7 + index * 29) % BULLETS:03d}" for index in range(tags)]
    if number < MARKS:
        names[0] = MARKED
    completed = NewEvent(
        ev.REFLECTION_COMPLETED,
        identity(ev.REFLECTION_COMPLETED, reflection_id),
        {
            "analysis": _text(reflection_id, 30),
            "rationales": [
                {"index": index, "rationale": _text(name, 10)} for index, name in enumerate(names)
            ],
            "backend": "rules",
            "model": None,
        },
        actor="rules",
        session_id=session_id,
        reflection_id=reflection_id,
        target_id=window_id,
    )
    return [
        completed,
        *(_tag(name, index, session_id, reflection_id) for index, name in enumerate(names)),
    ]


def _tag(name: str, index: int, session_id: str, reflection_id: str) -> NewEvent:
    verdict = "harmful" if index % 5 == 4 else "helpful"
    return NewEvent(
        ev.BULLET_TAGGED,
        identity(ev.BULLET_TAGGED, reflection_id, index),
        {"index": index, "name": name, "tag": verdict, "disposition": "counted"},
        actor="rules",
        session_id=session_id,
        reflection_id=reflection_id,
    )


def window(number: int) -> NewEvent:
    """Return the window that `reflection(number, …)` answers."""
    return session(number)[0]


def ledgers(sizes: Sequence[int]) -> dict[int, Path]:
    """Return a ledger file of each size (in events, rising). All are prefixes of one history.

    They are made once in a run, and kept until its end in the folder for temporary files.
    BENCH_LEDGERS names a folder that keeps copies for later runs.
    """
    folder = _folder()
    kept = Path(os.environ.get("BENCH_LEDGERS") or folder)
    if missing := [size for size in sizes if not (kept / f"{size}.db").exists()]:
        _grow(kept, missing)
    for size in sizes:
        if not (folder / f"{size}.db").exists():
            shutil.copyfile(kept / f"{size}.db", folder / f"{size}.db")
    return {size: folder / f"{size}.db" for size in sizes}


def _grow(folder: Path, sizes: Sequence[int]) -> None:
    with TemporaryDirectory(dir=folder) as name:
        growing = Path(name) / "growing.db"
        number = 0
        for size in sizes:
            with Ledger.open_file(growing) as ledger:
                with ledger.engine.connection() as connection:  # the ledger on which it appends
                    _without_syncs(connection)
                if number == 0:
                    ledger.append([playbook()])
                while number < size // _SESSION:
                    upto = min(number + 1000, size // _SESSION)
                    ledger.append([event for n in range(number, upto) for event in session(n)])
                    number = upto
            (shutil.move if size == sizes[-1] else shutil.copyfile)(growing, folder / f"{size}.db")


@cache
def _folder() -> Path:
    folder = mkdtemp(prefix="reflector-made-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _without_syncs(connection: Any) -> None:
    """Make writing faster: the new file need not survive a power failure, and its indexes stay in
    memory.
    """
    for setting in ("synchronous=OFF", "cache_size=-400000", "wal_autocheckpoint=100000"):
        connection.execute(f"PRAGMA {setting}")


def transcript(path: Path, megabytes: int, cited: str = "pat-001") -> None:
    """Write a transcript of this size that cites `cited` about once for each megabyte."""
    size = 0
    with path.open("wb") as file:
        for number in range(10**9):
            block = "".join(
                f"{json.dumps(r, separators=(',', ':'))}\n" for r in _turn(number, cited)
            ).encode()
            size += file.write(block)
            if size >= megabytes * 1024 * 1024:
                return


def _turn(number: int, cited: str) -> Iterator[dict[str, object]]:
    """Yield one step of an agent: thoughts, a call, its result, and sometimes words of the user and
    metadata.
    """
    session_id = "5e55104d-0000-4000-8000-000000000000"
    stamp = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/user/project",
        "sessionId": session_id,
        "version": "2.1.38",
        "gitBranch": "main",
    }
    if number % 20 == 0:
        yield {
            "type": "file-history-snapshot",
            "messageId": _uuid("m", number),
            "snapshot": {"timestamp": stamp},
        }
        yield {
            "parentUuid": _uuid("r", number),
            **common,
            "type": "user",
            "message": {"role": "user", "content": _text(f"p{number}", 30)},
            "uuid": _uuid("u", number),
            "timestamp": stamp,
        }
    say = (
        f"As [{cited}] says, {_text(f's{number}', 60)}"
        if number % 60 == 7
        else _text(f"s{number}", 60)
    )
    call = {
        "type": "tool_use",
        "id": f"toolu_{number:024d}",
        "name": "Bash",
        "input": {"command": _text("c", 12)},
    }
    for part, block in (
        ("t", {"type": "thinking", "thinking": _text(f"t{number}", 200), "signature": "x" * 400}),
        ("s", {"type": "text", "text": say}),
        ("c", call),
    ):
        yield {
            "parentUuid": _uuid("r" + part, number),
            **common,
            "message": {
                "model": "a-model",
                "id": f"msg_{number:024d}",
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 10, "cache_read_input_tokens": 40463, "output_tokens": 6},
            },
            "requestId": f"req_{number:024d}",
            "type": "assistant",
            "uuid": _uuid(part, number),
            "timestamp": stamp,
        }
    answer = "\n".join(_text(f"o{number}/{line}", 14) for line in range(60 if number % 3 else 160))
    yield {
        "parentUuid": _uuid("c", number),
        **common,
        "type": "user",
        "message": {
            "role": "user",
            "content": [
                {"tool_use_id": f"toolu_{number:024d}", "type": "tool_result", "content": answer}
            ],
        },
        "uuid": _uuid("o", number),
        "timestamp": stamp,
        "toolUseResult": {"stdout": answer[:2000], "stderr": "", "interrupted": False},
    }


def _text(seed: str, words: int) -> str:
    start = sum(seed.encode())
    return " ".join(_WORDS[(start + 7 * n + n * n) % len(_WORDS)] for n in range(words))


def _uuid(kind: str, number: int) -> str:
    digits = sha256(f"{kind}{number}".encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
