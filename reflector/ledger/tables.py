"""A ledger's tables and views as SQLAlchemy objects.

This is the one source of the schema. `make docs` writes `migrations/schema.sqlite.sql`,
`migrations/schema.postgresql.sql` and `ledger/columns.py` from it. A new ledger is made from the
first two, so no everyday command loads SQLAlchemy. Triggers and views have their own files
(`migrations/triggers`, `migrations/views`).

A program queries with it in Core:

    select(bullet.c.name, bullet.c.helpful).join(playbook)

`playbook` and `event` are the ledger. The other tables are computed from the events and can be
filled again at any time. A program can read all of them and must write to none: it appends with
`Ledger.append`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from reflector.events.registry import ONCE_PER_TARGET

metadata = sa.MetaData()
views = sa.MetaData()

#: A 64-bit whole number, like every whole number of SQLite.
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
#: SQLite stores these tables in the order of their key.
_KEYED: dict[str, Any] = {"sqlite_with_rowid": False, "sqlite_strict": True}


def _whole(doc: str = "") -> Column[int]:
    return Column(_BIG, nullable=False, doc=doc)


def _small(doc: str = "") -> Column[int]:
    return Column(sa.Integer, nullable=False, doc=doc)


def _counter(name: str) -> Column[int]:
    is_possible = sa.CheckConstraint(f"{name} >= 0", name=f"{name}_not_negative")
    doc = f"the start value plus the {name} verdicts that count"
    return Column(_BIG, is_possible, nullable=False, doc=doc)


def _text(doc: str = "") -> Column[str]:
    return Column(sa.Text, nullable=False, doc=doc)


def _text_or_null(doc: str = "") -> Column[str | None]:
    return Column(sa.Text, doc=doc)


def _of_playbook() -> Column[int]:
    return Column(sa.Integer, primary_key=True, autoincrement=False)


def _position(doc: str) -> Column[int]:
    return Column(_BIG, primary_key=True, autoincrement=False, doc=doc)


def _belongs() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["playbook_id"], ["playbook.id"])


class PlaybookColumns(TypedColumns):
    id = Column(sa.Integer, sa.Identity(), primary_key=True)
    name = _text()
    origin = _text("a random number that distinguishes ledgers of the same name")
    position = _whole("of the last event")
    chain = _text("hash of the last event and of all before it")
    recorded_at = _text("time of the last event")


class EventColumns(TypedColumns):
    playbook_id = _of_playbook()
    position = _position("1, 2, 3 … of the playbook")
    event_id = _text("the same on every machine that has the event")
    type = _text("such as bullet.tagged; docs/events.md lists them")
    schema_version = _small("of the event's data")
    occurred_at = _text("time of the event, ISO 8601 in UTC")
    recorded_at = _text("time of the append, later than the time of the event before")
    actor = _text("who caused the event: human, agent, a judge")
    session_id = _text_or_null("the agent's session")
    reflection_id = _text_or_null("the reflection that the event belongs to")
    target_id = _text_or_null("the event that this event is about")
    data = _text_or_null("JSON; null if the data was redacted")
    data_hash = _text("SHA-256 of `data`, kept when `data` is redacted")
    meta = _text("JSON: tokens, cost, transaction")
    chain = _text("hash of this event and of all before it")
    recorded_by = _text_or_null("the login on a server; not covered by the chain")


class BulletColumns(TypedColumns):
    playbook_id = _of_playbook()
    name = Column(sa.Text, primary_key=True, doc="such as pat-001; never used twice")
    ordinal = _whole("1, 2, 3 … in order of creation")
    section = _text("pat, mis, pref, ctx or oth")
    text = _text()
    status = _text("live, removed, merged or watched")
    reason = _text_or_null("why the rule was removed")
    removed_into = _text_or_null("the rule into which this rule was merged")
    position = _whole("of the event that added the rule")
    recounted_at = _whole("of the last recount; earlier verdicts do not count")
    baseline_helpful = _whole("the count that the rule began with, or that was set by hand")
    baseline_harmful = _whole("the count that the rule began with, or that was set by hand")
    helpful = _counter("helpful")
    harmful = _counter("harmful")


class TagColumns(TypedColumns):
    playbook_id = _of_playbook()
    position = _position("of the tag's event")
    name = _text("of the bullet")
    tag = _small("1 helpful, -1 harmful, 0 if the verdict can never count")
    active = _small("1 while the verdict counts")
    session_id = _text_or_null()
    reflection_id = _text_or_null()


class SessionWindowColumns(TypedColumns):
    playbook_id = _of_playbook()
    position = _position("of the recording event")
    event_id = _text()
    session_id = _text_or_null()
    state = _text("pending, answered, failed, completed, skipped or given_up")
    attempts = _small()
    changed_at = _text("time of the last event about this part of the session")


class RetractionColumns(TypedColumns):
    playbook_id = _of_playbook()
    event_id = Column(sa.Text, primary_key=True)
    target_id = _text("the retracted event")
    active = _small("0 if the retraction was retracted")


class RecordColumns(TypedColumns):
    playbook_id = _of_playbook()
    key: Named[int] = Column(
        sa.quoted_name("key", quote=True),
        _BIG,
        primary_key=True,
        autoincrement=False,
        doc="key of a transcript's record; a resumed session adds only records with new keys",
    )


class ProjectionColumns(TypedColumns):
    playbook_id = _of_playbook()
    name = Column(sa.Text, primary_key=True, doc="`tables`, or a file such as playbook.json")
    code_version = _small("of the program that filled it")
    policy_id = _text("the counting policy")
    position = _whole("of the last event in it")
    state_hash = _text("for tables, the digest of triggers and views; for a file, its SHA-256")
    updated_at = _text_or_null("when a rule or a count last changed")


class CachedUsageColumns(TypedColumns):
    playbook_id = _of_playbook()
    code_version = _small()
    position = _whole("of the last event in it")
    state = _text("JSON: the state of ledger/usage.py")


playbook = sa.Table(
    "playbook", metadata, PlaybookColumns, sa.UniqueConstraint("name"), sqlite_strict=True
)


def _index(name: str, *columns: str, where: str = "", unique: bool = False) -> sa.Index:
    """Return an index of a table's rows that fulfil a condition."""
    condition = sa.text(where) if where else None
    return sa.Index(
        name,
        "playbook_id",
        *columns,
        unique=unique,
        sqlite_where=condition,
        postgresql_where=condition,
    )


_ONCE = ", ".join(f"'{name}'" for name in ONCE_PER_TARGET)

event = sa.Table(
    "event",
    metadata,
    EventColumns,
    sa.UniqueConstraint("playbook_id", "event_id", name="event_id_once"),
    sa.ForeignKeyConstraint(
        ["playbook_id", "target_id"],
        ["event.playbook_id", "event.event_id"],
        name="event_target_exists",
    ),
    _belongs(),
    _index("event_by_session", "session_id", "position", where="session_id IS NOT NULL"),
    _index("event_by_target", "target_id", "position", where="target_id IS NOT NULL"),
    # Without tags, because these are most events and have their own table. The rest is found by
    # type.
    _index("event_by_type", "type", "position", where="type <> 'bullet.tagged'"),
    _index("event_target_once", "type", "target_id", where=f"type IN ({_ONCE})", unique=True),
    **_KEYED,
)
bullet = sa.Table(
    "bullet",
    metadata,
    BulletColumns,
    _belongs(),
    # Empty for most playbooks. Every append checks whether any bullet was merged.
    _index("bullet_merged", "removed_into", where="status = 'merged'"),
    **_KEYED,
)
tag = sa.Table(
    "tag",
    metadata,
    TagColumns,
    _belongs(),
    # With this order GROUP BY name, active, tag reads only the index.
    _index("tag_count", "name", "active", "tag"),
    **_KEYED,
)
session_window = sa.Table(
    "session_window",
    metadata,
    SessionWindowColumns,
    _belongs(),
    _index("window_open", "position", where="state IN ('pending', 'answered', 'failed')"),
    **_KEYED,
)
retraction = sa.Table(
    "retraction",
    metadata,
    RetractionColumns,
    _belongs(),
    _index("retraction_by_target", "target_id", unique=True),
    **_KEYED,
)
record = sa.Table("record", metadata, RecordColumns, _belongs(), **_KEYED)
projection = sa.Table("projection", metadata, ProjectionColumns, _belongs(), **_KEYED)
cached_usage = sa.Table("cached_usage", metadata, CachedUsageColumns, _belongs(), **_KEYED)


class BulletsView(TypedColumns):
    playbook: Named[str]
    name: Named[str]
    section: Named[str]
    text: Named[str]
    helpful: Named[int]
    harmful: Named[int]
    status: Named[str]
    reason: Named[str | None]
    removed_into: Named[str | None]
    position: Named[int]
    added_at: Named[str | None]
    ordinal: Named[int]
    baseline_helpful: Named[int]
    baseline_harmful: Named[int]
    counting: Named[str | None]


class TagsView(TypedColumns):
    playbook: Named[str]
    position: Named[int]
    recorded_at: Named[str]
    name: Named[str]
    tag: Named[str | None]
    disposition: Named[str]
    counts: Named[int]
    rationale: Named[str | None]
    backend: Named[str]
    model: Named[str | None]
    session_id: Named[str | None]
    reflection_id: Named[str | None]
    event_id: Named[str]


class ReflectionsView(TypedColumns):
    playbook: Named[str]
    reflection_id: Named[str]
    session_id: Named[str | None]
    window_position: Named[int | None]
    backend: Named[str]
    model: Named[str | None]
    mode: Named[str | None]
    answers: Named[int]
    answered_at: Named[str]
    completed_at: Named[str | None]
    position: Named[int | None]
    analysis: Named[str | None]
    tags: Named[int]
    helpful: Named[int]
    harmful: Named[int]
    input_tokens: Named[int]
    output_tokens: Named[int]
    cache_read_tokens: Named[int]
    cache_write_tokens: Named[int]
    tokens: Named[int]
    cost_usd: Named[float | None]
    prompt_sha256: Named[str | None]
    template_sha256: Named[str | None]
    retracted: Named[int]


class SessionsView(TypedColumns):
    playbook: Named[str]
    session_id: Named[str | None]
    agent: Named[str | None]
    transcript: Named[str | None]
    first_recorded_at: Named[str]
    last_recorded_at: Named[str]
    ended_at: Named[str]
    windows: Named[int]
    judged: Named[int]
    skipped: Named[int]
    waiting: Named[int]
    given_up: Named[int]
    retracted: Named[int]
    records: Named[int]
    cited: Named[int]
    answers: Named[int]
    tokens: Named[int]
    cost_usd: Named[float | None]
    tags: Named[int]
    helpful: Named[int]
    harmful: Named[int]
    position: Named[int]


bullets = sa.Table("bullets", views, BulletsView)
tags = sa.Table("tags", views, TagsView)
reflections = sa.Table("reflections", views, ReflectionsView)
sessions = sa.Table("sessions", views, SessionsView)
