-- The ledger and its projections, as revision 0001 made them. Never edit: later revisions build on it.

CREATE TABLE playbook (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    position {bigint} NOT NULL,
    chain TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
){strict};

CREATE TABLE bullet (
    playbook_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    ordinal {bigint} NOT NULL,
    section TEXT NOT NULL,
    text TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    removed_into TEXT,
    position {bigint} NOT NULL,
    recounted_at {bigint} NOT NULL,
    baseline_helpful {bigint} NOT NULL,
    baseline_harmful {bigint} NOT NULL,
    helpful {bigint} NOT NULL CONSTRAINT helpful_not_negative CHECK (helpful >= 0),
    harmful {bigint} NOT NULL CONSTRAINT harmful_not_negative CHECK (harmful >= 0),
    PRIMARY KEY (playbook_id, name),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE TABLE event (
    playbook_id INTEGER NOT NULL,
    position {bigint} NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    occurred_at TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    actor TEXT NOT NULL,
    session_id TEXT,
    reflection_id TEXT,
    target_id TEXT,
    data TEXT,
    data_hash TEXT NOT NULL,
    meta TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (playbook_id, position),
    CONSTRAINT event_id_once UNIQUE (playbook_id, event_id),
    CONSTRAINT event_target_exists FOREIGN KEY(playbook_id, target_id) REFERENCES event (playbook_id, event_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE INDEX event_by_session ON event (playbook_id, session_id, position) WHERE session_id IS NOT NULL;

CREATE INDEX event_by_target ON event (playbook_id, target_id, position) WHERE target_id IS NOT NULL;

CREATE INDEX event_by_type ON event (playbook_id, type, position) WHERE type <> 'bullet.tagged';

CREATE UNIQUE INDEX event_target_once ON event (playbook_id, type, target_id) WHERE type IN ('evidence.retracted', 'event.redacted');

CREATE TABLE projection (
    playbook_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    code_version INTEGER NOT NULL,
    policy_id TEXT NOT NULL,
    position {bigint} NOT NULL,
    state_hash TEXT NOT NULL,
    updated_at TEXT,
    PRIMARY KEY (playbook_id, name),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE TABLE record (
    playbook_id INTEGER NOT NULL,
    "key" {bigint} NOT NULL,
    PRIMARY KEY (playbook_id, "key"),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE TABLE retraction (
    playbook_id INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    active INTEGER NOT NULL,
    PRIMARY KEY (playbook_id, event_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE UNIQUE INDEX retraction_by_target ON retraction (playbook_id, target_id);

CREATE TABLE session_window (
    playbook_id INTEGER NOT NULL,
    position {bigint} NOT NULL,
    event_id TEXT NOT NULL,
    session_id TEXT,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (playbook_id, position),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE INDEX window_open ON session_window (playbook_id, position) WHERE state IN ('pending', 'answered', 'failed');

CREATE TABLE tag (
    playbook_id INTEGER NOT NULL,
    position {bigint} NOT NULL,
    name TEXT NOT NULL,
    tag INTEGER NOT NULL,
    active INTEGER NOT NULL,
    session_id TEXT,
    reflection_id TEXT,
    PRIMARY KEY (playbook_id, position),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE INDEX tag_count ON tag (playbook_id, name, active, tag);
