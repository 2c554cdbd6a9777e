"""A process that takes sessions in until it is killed, and says after each command what it was told."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from reflector.cli.app import run
from reflector.hooks import spool
from reflector.ledger.store import Ledger


def work(project: Path, transcripts: Path, told: Path, environ: dict[str, str], seed: int, commands: int) -> None:
    """Ingest, hand over and drain at random. What was acknowledged is appended to `told`, one JSON object a line."""
    os.environ.clear()
    os.environ.update(environ)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(quiet, fd)
    chance = random.Random(seed)
    paths = sorted(transcripts.iterdir())
    with told.open("ab", buffering=0) as log:
        for _ in range(commands):
            path = chance.choice(paths)
            if chance.random() < 0.3:
                payload = {"hook_event_name": "SessionEnd", "session_id": path.stem, "transcript_path": str(path)}
                spool.accept(project, json.dumps(payload).encode())
                log.write(_line(delivered=path.stem))
                # Leaves at once where another is at work, as the drains do that hooks start.
                run(["--project", str(project), "drain"])
            elif run(["--project", str(project), "ingest", str(path)]) == 0:
                log.write(_line(ingested=path.stem, head=_head(project)))


def _head(project: Path) -> str:
    with Ledger.open_file(project / ".claude/reflector/ledger.db") as ledger:
        head = ledger.head()
    return f"{head.position}:{head.chain}"


def _line(**values: str) -> bytes:
    return json.dumps(values).encode() + b"\n"
