"""Last answers that a stop contained and that no transcript had when the session ended, kept as
transcripts of ours.

Invariant: an answer counts once. If the agent writes it later, its words identify it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from reflector import files
from reflector.handover import file_name
from reflector.transcripts.citations import spread

_MAX_BYTES = 1 << 22
#: The number of first characters that identify an answer.
_MIN_COMMON_CHARACTERS = 200


def keep_answer(
    project: Path, session_id: str, agent_id: str | None, answer: str, at_ns: int
) -> Path:
    """Add an answer to the file of its session's answers, which is a transcript; return the file.

    Raises: OSError.
    """
    folder = files.private_folder(f"{files.open_state(str(project))}/answers")
    name = _name(session_id, agent_id)
    known = files.read_file(f"{folder}/{name}", _MAX_BYTES) if Path(folder, name).is_file() else b""
    time = datetime.fromtimestamp(at_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    uuid = (
        "answer-" + sha256(f"{session_id}\0{answer}".encode("utf-8", "surrogatepass")).hexdigest()
    )
    if uuid.encode() not in known:
        record = {
            "type": "assistant",
            "uuid": uuid,
            "sessionId": session_id,
            "timestamp": time,
            "message": body,
        }
        files.write_durably(folder, known + json.dumps(record).encode() + b"\n", name)
    return Path(folder, name)


def kept_answers(project: Path | None, session_id: str, agent_id: str | None) -> Sequence[str]:
    """Return the kept answers of a session, oldest first."""
    if project is None:
        return ()
    try:
        path = f"{files.state_folder(str(project))}/answers/{_name(session_id, agent_id)}"
        records = map(json.loads, files.read_file(path, _MAX_BYTES).splitlines())
        return [record["message"]["content"][0]["text"] for record in records]
    except (OSError, ValueError, LookupError, TypeError):
        return ()


def is_part(text: str, answer: str) -> bool:
    """Return whether a text of a transcript, which may be cut, is an answer or one of its
    blocks.
    """
    text = " ".join(spread(text).split())
    answer = " ".join(spread(answer).split())
    if not text or not answer:
        return False
    return text[:_MIN_COMMON_CHARACTERS] in answer or answer[:_MIN_COMMON_CHARACTERS] in text


def _name(session_id: str, agent_id: str | None) -> str:
    return file_name(f"{session_id}-{agent_id}" if agent_id else session_id) + "l"
