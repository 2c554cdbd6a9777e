"""Somebody with a ledger's file and a database's whole powers: changes of rows, of the schema and
of bytes.

Each change is clever in one respect: afterwards the triggers stand as they stood, so nothing but
the change itself can be found. What a forger did is told as a sentence, so that a campaign's
failure can be played again.
"""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from reflector.ledger.columns import LEDGER_TABLES
from reflector.ledger.sqlite_file import sqlite_module

#: The planner's figures: no answer depends on them, and ANALYZE writes them anew.
FIGURES = "sqlite_stat"
TABLES = (*LEDGER_TABLES, "alembic_version")
#: A server's own word, which no hash covers: another server would say another one of the same event
#: (docs/trust.md).
UNPROVED = frozenset({"recorded_by"})


def connect(path: Path) -> Any:
    return sqlite_module().connect(path, isolation_level=None)


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All that software can read of a ledger: every row of every table, the schema, and how its
    text is encoded.
    """
    with closing(connect(path)) as connection:
        names = [
            row[0]
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        names = [name for name in names if not name.startswith(FIGURES)]
        found = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
        objects = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master"
        ).fetchall()
        # Triggers and views do the same with other white space between their words.
        loose = {"trigger", "view"}
        found["schema"] = [
            (*one[:3], " ".join(one[3].split()) if one[0] in loose else one[3]) for one in objects
        ]
        found["encoding"] = connection.execute("PRAGMA encoding").fetchall()
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


@contextmanager
def forging(path: Path) -> Iterator[Any]:
    """A connection on which nothing is refused; the triggers stand again at the end, word for
    word.
    """
    with closing(connect(path)) as connection:
        for pragma in ("foreign_keys=OFF", "ignore_check_constraints=ON"):
            connection.execute(f"PRAGMA {pragma}")
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)


def change_a_row(path: Path, chance: random.Random) -> str:
    """Set, delete, duplicate or swap something of a row."""
    how = chance.choices([_set, _delete, _duplicate, _swap], [8, 1, 1, 1])[0]
    with forging(path) as connection:
        tables = [*TABLES, "event", "event", "tag", "bullet", "session_window"]
        table = chance.choice(
            [one for one in tables if connection.execute(f"SELECT 1 FROM {one}").fetchone()]
        )
        forged = _Forged(connection, chance, table)
        return f"{how(forged)} ({table}: {forged.named()})"


class _Forged:
    """A row of a table that is about to be changed."""

    def __init__(self, connection: Any, chance: random.Random, table: str) -> None:
        self.connection, self.chance, self.table = connection, chance, table
        described = connection.execute(f"PRAGMA table_info({table})").fetchall()
        self.columns = [row[1] for row in described]
        self.key = [row[1] for row in described if row[5]]
        # What was last written into playbook.json is remembered, and no event says it: see
        # docs/trust.md.
        only = " WHERE name = 'tables'" if table == "projection" else ""
        self.rows = connection.execute(f"SELECT * FROM {table}{only}").fetchall()
        self.row = self.any_row()

    def any_row(self) -> dict[str, Any]:
        return dict(zip(self.columns, self.chance.choice(self.rows), strict=True))

    def named(self, row: dict[str, Any] | None = None) -> dict[str, Any]:
        return {column: (row or self.row)[column] for column in self.key}

    def run(self, statement: str, row: dict[str, Any], *values: Any) -> None:
        """Run a statement that ends with a row's key."""
        where = " AND ".join(f'"{column}" = ?' for column in self.key)
        self.connection.execute(f"{statement} WHERE {where}", (*values, *self.named(row).values()))

    def update(self, row: dict[str, Any], values: dict[str, Any]) -> None:
        sets = ", ".join(f'"{column}" = ?' for column in values)
        self.run(f"UPDATE {self.table} SET {sets}", row, *values.values())


def _set(forged: _Forged) -> str:
    column = forged.chance.choice([one for one in forged.columns if one not in UNPROVED])
    values = [row[forged.columns.index(column)] for row in forged.rows]
    value = other_value(forged.chance, forged.row[column], values)
    forged.update(forged.row, {column: value})
    return f"set {column} to {value!r:.80}"


def other_value(chance: random.Random, value: Any, values: list[Any]) -> Any:
    """Another value of the same type, near or far; NULL is tried where it may be refused."""
    others = [other for other in values if other != value]
    if isinstance(value, int):
        return chance.choice(
            [value + 1, value - 1, 0 if value else 1, value + 2**40, -value - 1, *others[:3]]
        )
    if value is None:
        return chance.choice(["", "x", *[other for other in others if other][:3]])
    at = chance.randrange(len(value)) if value else 0
    letter = chance.choice('abcdef0123456789 \n\0é\U0001f600{}[]"')
    return chance.choice(
        [
            value[:at] + letter + value[at + 1 :],
            value[:at] + value[at + 1 :],
            value[:at] + letter + value[at:],
            value.swapcase(),
            "",
            None,
            *(chance.sample(others, 1) if others else []),
        ]
    )


def _delete(forged: _Forged) -> str:
    forged.run(f"DELETE FROM {forged.table}", forged.row)
    return "deleted"


def _duplicate(forged: _Forged) -> str:
    copy = dict(forged.row)
    unique = [
        c for c in ("event_id", "target_id", "name") if c in copy and forged.chance.random() < 0.7
    ]
    for column in {forged.key[-1], *unique}:
        value = copy[column]
        copy[column] = (
            value + forged.chance.choice([1, 1000]) if isinstance(value, int) else f"{value or ''}x"
        )
    marks = ", ".join("?" * len(copy))
    forged.connection.execute(f"INSERT INTO {forged.table} VALUES ({marks})", list(copy.values()))
    return f"duplicated as {forged.named(copy)}"


def _swap(forged: _Forged) -> str:
    other = forged.any_row()
    free = [column for column in forged.columns if column not in forged.key]
    chosen = (
        free if forged.chance.random() < 0.5 else [forged.chance.choice(free or forged.columns)]
    )
    if "event_id" in chosen:  # once in a playbook: a third value stands in between
        forged.update(forged.row, {"event_id": "between"})
    forged.update(other, {column: forged.row[column] for column in chosen})
    forged.update(forged.row, {column: other[column] for column in chosen})
    return f"swapped {chosen} with {forged.named(other)}"


def change_the_schema(path: Path, chance: random.Random) -> str:
    """Drop, empty, add or rewrite something of the schema; triggers are not put back."""
    with closing(connect(path)) as connection:
        objects = connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name "
            "NOT LIKE 'sqlite_%'"
        ).fetchall()
        type_, name, table, sql = chance.choice(
            [one for one in objects if one[1] != "alembic_version"]
        )
        how = chance.choice(["drop", "change", "add", "rewrite"])
        on = chance.choice(["event", "bullet", "tag", "playbook"])
        additions = [
            f"CREATE TRIGGER extra AFTER INSERT ON {on} BEGIN SELECT 1; END",
            f"CREATE INDEX extra ON {on} ({'name' if on != 'event' else 'actor'})",
            f"ALTER TABLE {on} ADD COLUMN extra TEXT",
        ]
        hollow = {
            "trigger": (
                f"CREATE TRIGGER {name} {' '.join(sql.split()[3:5])} ON {table} BEGIN SELECT 1; END"
            ),
            "index": f"CREATE INDEX {name} ON {table} (playbook_id)",
            "view": f"CREATE VIEW {name} AS SELECT 1",
        }
        if how == "add":
            connection.execute(chance.choice(additions))
        elif how == "drop" or (how == "change" and type_ in hollow):
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute(f"DROP {type_} {name}")
            if how == "change":
                connection.execute(hollow[type_])
        else:
            words = [
                ("NOT NULL", ""),
                ("STRICT", ""),
                ("CHECK (h", "CHECK (1 OR h"),
                ("TEXT", "ANY"),
            ]
            words += [
                (" ABORT", " IGNORE"),
                (" UNIQUE", " "),
                ("'append-only", "'no"),
                ("WHERE", "WHERE 1 OR"),
            ]
            words += [("playbook_id,", "")]
            old, new = chance.choice(
                [pair for pair in words if pair[0] in sql] or [(name, f"{name} ")]
            )
            connection.execute("PRAGMA writable_schema=ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql.replace(old, new), name)
            )
            how = f"rewrote {old!r} to {new!r}"
    return f"{how}: {type_} {name}"


def change_bytes(path: Path, chance: random.Random) -> str:
    """Change a file's bytes: one of them, a page, or where the file ends."""
    raw = bytearray(path.read_bytes())
    size, page = len(raw), 8192

    def a_page() -> int:
        return chance.randrange(size // page or 1) * page

    used = [at for at in chance.sample(range(size), min(400, size)) if raw[at]]
    # Anywhere, where something stands, in the file's header, in a page's header.
    bytes_ = [chance.randrange(size), chance.choice(used or [0]), chance.randrange(min(100, size))]
    bytes_.append(min(a_page() + chance.randrange(12), size - 1))
    match chance.choices([0, 1, 2, 3, "page", "end"], [10, 10, 4, 4, 2, 1])[0]:
        case "page":
            one, other, how = a_page(), a_page(), chance.choice(["emptied", "copied"])
            raw[one : one + page] = bytes(page) if how == "emptied" else raw[other : other + page]
            told = f"page at {one} {how}, from {other}"
        case "end":
            end = chance.randrange(size)
            del raw[end:]
            told = f"cut at {end}"
        case int(which):
            at = bytes_[which]
            before = raw[at]
            raw[at] ^= chance.choice([1 << chance.randrange(8), chance.randrange(1, 256)])
            told = f"byte {at} from {before} to {raw[at]}"
    path.write_bytes(raw)
    return f"{path.suffix}: {told}"
