"""The tables, the same on SQLite and PostgreSQL.

Invariant: `playbook` and `event` are the ledger; all others can be rebuilt from them at any time and hold nothing that
an event does not say.
A test holds these definitions equal to what the migrations make.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from reflector.events.registry import ONCE_PER_TARGET
from reflector.ledger.rows import OPEN_WINDOW

metadata = sa.MetaData()


@sa.event.listens_for(metadata, "before_create")
def _partial_on_postgresql(target: sa.MetaData, connection: sa.Connection, **_: Any) -> None:
    """The partial indexes have the same conditions on PostgreSQL.

    Said where it is needed: to name an option of an engine loads the engine's whole dialect, and PostgreSQL's took
    a tenth of every start.
    """
    if connection.dialect.name == "postgresql":
        for index in (index for table in target.tables.values() for index in table.indexes):
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]


Position = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SQLITE: dict[str, Any] = {"sqlite_strict": True, "sqlite_with_rowid": False}

playbook = sa.Table(
    "playbook",
    metadata,
    sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("position", Position, nullable=False),
    sa.Column("chain", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.Text, nullable=False),
    sqlite_strict=True,
)

event = sa.Table(
    "event",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("position", Position, primary_key=True, autoincrement=False),
    sa.Column("event_id", sa.Text, nullable=False),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("schema_version", sa.Integer, nullable=False),
    sa.Column("occurred_at", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text),
    sa.Column("reflection_id", sa.Text),
    sa.Column("target_id", sa.Text),
    sa.Column("data", sa.Text),
    sa.Column("data_hash", sa.Text, nullable=False),
    sa.Column("meta", sa.Text, nullable=False),
    sa.Column("chain", sa.Text, nullable=False),
    # Who was logged in when the row was written, by a server's own word; no part of the chain.
    sa.Column("recorded_by", sa.Text),
    sa.UniqueConstraint("playbook_id", "event_id", name="event_id_once"),
    sa.ForeignKeyConstraint(
        ["playbook_id", "target_id"], ["event.playbook_id", "event.event_id"], name="event_target_exists"
    ),
    sa.Index(
        "event_target_once",
        "playbook_id",
        "type",
        "target_id",
        unique=True,
        sqlite_where=sa.text(f"type IN ({', '.join(map(repr, ONCE_PER_TARGET))})"),
    ),
    sa.Index(
        "event_by_session",
        "playbook_id",
        "session_id",
        "position",
        sqlite_where=sa.text("session_id IS NOT NULL"),
    ),
    sa.Index(
        "event_by_target",
        "playbook_id",
        "target_id",
        "position",
        sqlite_where=sa.text("target_id IS NOT NULL"),
    ),
    # Tags are most events and have a table of their own; without them the rest is found by its type at once.
    sa.Index(
        "event_by_type",
        "playbook_id",
        "type",
        "position",
        sqlite_where=sa.text("type <> 'bullet.tagged'"),
    ),
    **_SQLITE,
)

bullet = sa.Table(
    "bullet",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("ordinal", Position, nullable=False),
    sa.Column("section", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("removed_into", sa.Text),
    sa.Column("position", Position, nullable=False),
    sa.Column("recounted_at", Position, nullable=False),
    sa.Column("baseline_helpful", Position, nullable=False),
    sa.Column("baseline_harmful", Position, nullable=False),
    sa.Column("helpful", Position, sa.CheckConstraint("helpful >= 0", name="helpful_not_negative"), nullable=False),
    sa.Column("harmful", Position, sa.CheckConstraint("harmful >= 0", name="harmful_not_negative"), nullable=False),
    # Of most playbooks empty: every append asks whether any bullet was merged.
    sa.Index("bullet_merged", "playbook_id", "removed_into", sqlite_where=sa.text("status = 'merged'")),
    **_SQLITE,
)

#: `tag` is 1 for helpful, -1 for harmful, 0 for all that can never count; `active` is 1 while it counts.
tag = sa.Table(
    "tag",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("position", Position, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("tag", sa.Integer, nullable=False),
    sa.Column("active", sa.Integer, nullable=False),
    sa.Column("session_id", sa.Text),
    sa.Column("reflection_id", sa.Text),
    # Ordered so that GROUP BY name, active, tag streams over the index alone, and a bullet's tags are one range.
    sa.Index("tag_count", "playbook_id", "name", "active", "tag"),
    **_SQLITE,
)

#: One row a session window; `state` is pending, answered, failed (all open), completed, skipped or given_up.
session_window = sa.Table(
    "session_window",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("position", Position, primary_key=True, autoincrement=False),
    sa.Column("event_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("changed_at", sa.Text, nullable=False),
    sa.Index(
        "window_open",
        "playbook_id",
        "position",
        sqlite_where=sa.text(OPEN_WINDOW),
    ),
    **_SQLITE,
)

retraction = sa.Table(
    "retraction",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("event_id", sa.Text, primary_key=True),
    sa.Column("target_id", sa.Text, nullable=False),
    sa.Column("active", sa.Integer, nullable=False),
    sa.Index("retraction_by_target", "playbook_id", "target_id", unique=True),
    **_SQLITE,
)

#: Keys of every transcript record that a window holds: a fork or a resume adds only records that are not here.
record = sa.Table(
    "record",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("key", Position, primary_key=True, autoincrement=False),
    **_SQLITE,
)

#: Since which position a bullet has a status: one row for each that it ever had.
bullet_status = sa.Table(
    "bullet_status",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("position", Position, primary_key=True, autoincrement=False),
    sa.Column("status", sa.Text, nullable=False),
    **_SQLITE,
)

#: Checkpoints: `tables` (the rows above: the policy that counts, when a bullet or a count last changed) and
#: `playbook.json` (the last file written: its position and SHA-256).
projection = sa.Table(
    "projection",
    metadata,
    sa.Column("playbook_id", sa.Integer, sa.ForeignKey("playbook.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("code_version", sa.Integer, nullable=False),
    sa.Column("policy_id", sa.Text, nullable=False),
    sa.Column("position", Position, nullable=False),
    sa.Column("state_hash", sa.Text, nullable=False),
    sa.Column("updated_at", sa.Text),
    **_SQLITE,
)
