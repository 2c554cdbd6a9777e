"""A process that takes sessions in until it is killed, and says after each command what it was told."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from reflector.cli.app import run
from reflector.files import open_state
from reflector.handover import keep, record
from reflector.ledger.store import Ledger


def work(project: Path, transcripts: Path, told: Path, environ: dict[str, str], seed: int) -> None:
    """Ingest, hand over and drain at random. What was acknowledged is appended to `told`, one JSON object a line."""
    os.environ.clear()
    os.environ.update(environ)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(quiet, fd)
    chance = random.Random(seed)
    paths = sorted(transcripts.iterdir())
    with told.open("ab", buffering=0) as log:
        while True:
            path = chance.choice(paths)
            if chance.random() < 0.3:
                payload = {"hook_event_name": "SessionEnd", "session_id": path.stem, "transcript_path": str(path)}
                keep(open_state(str(project)), payload, record(str(project), payload, json.dumps(payload)))
                log.write(_line(delivered=path.stem))
                # Leaves at once where another is at work, as the drains do that hooks start.
                run(["--project", str(project), "drain"])
            elif run(["--project", str(project), "ingest", str(path)]) == 0:
                log.write(_line(ingested=path.stem, head=_head(project)))


#: Calls into C that leave a trace on the disk, or are about to.
_STEPS = frozenset(
    {"open", "write", "fsync", "replace", "rename", "unlink", "mkdir", "flock", "execute", "executemany", "commit"}
)


def drain_until(project: Path, environ: dict[str, str], step: int) -> None:
    """Drain, and be killed right before the `step`th call that could leave a trace, counted from 1."""
    os.environ.clear()
    os.environ.update(environ)
    left = step

    def count(_frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and called.__name__ in _STEPS:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    run(["--project", str(project), "drain"])
    sys.setprofile(None)


def _head(project: Path) -> str:
    with Ledger.open_file(project / ".claude/reflector/ledger.db") as ledger:
        head = ledger.head()
    return f"{head.position}:{head.chain}"


def _line(**values: str) -> bytes:
    return json.dumps(values).encode() + b"\n"
