"""The minimum work of verifying, in its own process: `python -m benchmarks.verify_floor FILE`.

It fetches the events and hashes them, counts the tags without comparing a row, and lets SQLite
check its file. It does not import reflector.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from typing import Any

try:
    from pysqlite3 import dbapi2 as sqlite
except ImportError:
    import sqlite3 as sqlite

_COLUMNS = (
    "position, event_id, type, schema_version, occurred_at, recorded_at, actor, session_id, "
    "reflection_id, target_id,"
    " data, data_hash, meta, chain"
)


def main(path: str) -> None:
    connection = sqlite.connect(path)
    cursor = connection.execute(
        f"SELECT {_COLUMNS} FROM event WHERE playbook_id = 1 ORDER BY position"  # noqa: S608
    )
    chain = bytes(32)
    counted: dict[tuple[str, str], set[str]] = {}
    while rows := cursor.fetchmany(1000):
        for row in rows:
            chain = _hashed(chain, row)
            if row[2] == "bullet.tagged":
                data = json.loads(row[10])
                if data["disposition"] == "counted":
                    counted.setdefault((data["name"], data["tag"]), set()).add(row[1])
    connection.execute("PRAGMA integrity_check").fetchall()
    connection.execute("PRAGMA foreign_key_check").fetchall()


def _hashed(chain: bytes, row: Any) -> bytes:
    data, meta = sha256(row[10].encode()).hexdigest(), sha256(row[12].encode()).hexdigest()
    header = (
        "\n".join(map(str, row[:7]))
        + f"\n{row[7] or ''}\n{row[8] or ''}\n{row[9] or ''}\n{data}\n{meta}"
    )
    return sha256(b"\x03" + chain + sha256(b"\x01" + header.encode()).digest()).digest()


if __name__ == "__main__":
    main(sys.argv[1])
