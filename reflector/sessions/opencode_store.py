"""The sessions of OpenCode, which keeps them in a database: each is written to a file before the
drain reads it.

Invariant: the database is only read, and only at the place where OpenCode itself keeps it for this
user, whatever a delivery names. A file has the format of `opencode export`, and is in the folder of
the plugin for OpenCode.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reflector import files
from reflector.ledger.sqlite_file import sqlite_module
from reflector.locate import user_folder
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.building import fields
from reflector.transcripts.reading import DOCUMENT_LIMIT


class StoreRefused(ValueError):
    """OpenCode's database cannot be read, or contains a session that is too long."""


_ID = lazy_pattern(r"ses_[A-Za-z0-9]{1,60}")
_BUSY_SECONDS = 5.0
_PARTS = "SELECT * FROM part WHERE session_id = ? ORDER BY id"
_MESSAGES = "SELECT * FROM message WHERE session_id = ? ORDER BY time_created, id"
_SESSION = "SELECT * FROM session WHERE id = ?"
_LAST = "SELECT data FROM message WHERE session_id = ? ORDER BY time_created DESC, id DESC LIMIT 1"


def exports_folder() -> Path:
    """Return the folder of the files, `${XDG_DATA_HOME:-~/.local/share}/opencode/reflector`."""
    return Path(user_folder()).parents[1] / "opencode" / "reflector"


def write_export(session_id: str | None) -> Path | None:
    """Write a session to its file, unless the file is as new as the session; return the file.

    None if the id is not one of OpenCode, or neither the database nor a file has the session.

    Raises:
        OSError: the file cannot be written
        StoreRefused: the database has another form, or the session is too long
    """
    if not session_id or _ID.fullmatch(session_id) is None:
        return None
    path = exports_folder() / f"{session_id}.json"
    with _database() as database:
        session = _row(database, _SESSION, session_id)
        if database is not None and session and not _is_new(path, session["time_updated"]):
            document = _document(database, session)
            content = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
            if len(content) > DOCUMENT_LIMIT:
                raise StoreRefused(
                    f"the OpenCode session {session_id} is longer than {DOCUMENT_LIMIT} bytes"
                )
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_durably(str(path.parent), content, path.name)
    return path if path.is_file() else None


def write_finished_export(session_id: str | None) -> Path | None:
    """Write a session to its file as `write_export` does if its last answer is complete; None for
    an active session.
    """
    if not session_id or _ID.fullmatch(session_id) is None:
        return None
    with _database() as database:
        last = _row(database, _LAST, session_id)
        info = _parsed(last["data"]) if last else {}
    is_ended = info.get("error") or "completed" in fields(info.get("time"))
    is_over = is_ended and info.get("role") == "assistant"
    return write_export(session_id) if is_over else None


def refresh_export(path: Path) -> None:
    """Write the session of an export's path again if OpenCode has a newer state of it.

    Raises: as `write_export` does.
    """
    if is_export(path):
        write_export(path.stem)


def is_export(path: Path) -> bool:
    """Return whether a path is that of a session's file, whether or not it exists."""
    is_here = path.parent == exports_folder() and path.suffix == ".json"
    return is_here and _ID.fullmatch(path.stem) is not None


@contextmanager
def _database() -> Iterator[sqlite3.Connection | None]:
    """Open OpenCode's database for reading; None if the file is missing.

    Raises: StoreRefused.
    """
    path = exports_folder().parent / "opencode.db"
    if not path.is_file():
        yield None
        return
    module = sqlite_module()
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(module.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as database:
            database.row_factory = module.Row
            database.execute("BEGIN")  # one state of all tables
            yield database
    except (module.Error, IndexError, KeyError) as error:
        raise StoreRefused(f"{path} cannot be read: {error}") from error


def _row(database: sqlite3.Connection | None, query: str, session_id: str) -> sqlite3.Row | None:
    if database is None:
        return None
    row: sqlite3.Row | None = database.execute(query, (session_id,)).fetchone()
    return row


def _is_new(path: Path, updated: Any) -> bool:
    """Return whether a file was written after a time in milliseconds."""
    try:
        return type(updated) is int and path.stat().st_mtime_ns // 1_000_000 > updated
    except FileNotFoundError:
        return False


def _document(database: sqlite3.Connection, session: sqlite3.Row) -> dict[str, Any]:
    """Return a session in the form of an export."""
    session_id = session["id"]
    parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in database.execute(_PARTS, (session_id,)):
        ids = {"id": row["id"], "messageID": row["message_id"], "sessionID": session_id}
        parts[row["message_id"]].append({**_parsed(row["data"]), **ids})
    messages: list[dict[str, Any]] = []
    for row in database.execute(_MESSAGES, (session_id,)):
        info = {**_parsed(row["data"]), "id": row["id"], "sessionID": session_id}
        messages.append({"info": info, "parts": parts[row["id"]]})
    info = {name: session[name] for name in ("id", "directory", "title", "version")}
    if session["parent_id"]:
        info["parentID"] = session["parent_id"]
    info["time"] = {"created": session["time_created"], "updated": session["time_updated"]}
    return {"info": info, "messages": messages}


def _parsed(text: Any) -> dict[str, Any]:
    try:
        return fields(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}
