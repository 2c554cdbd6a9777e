-- A ledger's tables as a new one gets them; migrations/versions brings older ones here, and `verify` compares.
-- `playbook` and `event` are the ledger. The others can be filled again from the events and say nothing else.
-- What differs between the engines and what the registry of event types says stands in braces.

-- A playbook and its head: position, chain and time of its last event.
CREATE TABLE playbook (
    id INTEGER NOT NULL{numbered},
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    position {bigint} NOT NULL,
    chain TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
){strict};

-- `recorded_by` is who was logged in when the row was written, by a server's own word; the chain does not cover it.
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
    recorded_by TEXT,
    PRIMARY KEY (playbook_id, position),
    CONSTRAINT event_id_once UNIQUE (playbook_id, event_id),
    CONSTRAINT event_target_exists FOREIGN KEY(playbook_id, target_id) REFERENCES event (playbook_id, event_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE INDEX event_by_session ON event (playbook_id, session_id, position) WHERE session_id IS NOT NULL;

CREATE INDEX event_by_target ON event (playbook_id, target_id, position) WHERE target_id IS NOT NULL;

-- Tags are most events and have a table of their own; without them the rest is found by its type at once.
CREATE INDEX event_by_type ON event (playbook_id, type, position) WHERE type <> 'bullet.tagged';

CREATE UNIQUE INDEX event_target_once ON event (playbook_id, type, target_id) WHERE type IN ({once});

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

-- Of most playbooks empty: every append asks whether any bullet was merged.
CREATE INDEX bullet_merged ON bullet (playbook_id, removed_into) WHERE status = 'merged';

-- `tag` is 1 for helpful, -1 for harmful, 0 for all that can never count; `active` is 1 while it counts.
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

-- In this order GROUP BY name, active, tag streams over the index alone, and a bullet's tags are one range.
CREATE INDEX tag_count ON tag (playbook_id, name, active, tag);

-- `state` is pending, answered, failed (all open), completed, skipped or given_up.
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

CREATE TABLE retraction (
    playbook_id INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    active INTEGER NOT NULL,
    PRIMARY KEY (playbook_id, event_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

CREATE UNIQUE INDEX retraction_by_target ON retraction (playbook_id, target_id);

-- Keys of every transcript record that a window holds: a fork or a resume adds only records that are not here.
CREATE TABLE record (
    playbook_id INTEGER NOT NULL,
    "key" {bigint} NOT NULL,
    PRIMARY KEY (playbook_id, "key"),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};

-- Where projections are: `tables` (the tables above: the policy that counts, when a bullet or a count last changed,
-- the digest of triggers and views) and `playbook.json` (the last file written: its position and SHA-256).
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

-- What `ledger/usage.py` knows of all events up to a position, to go on from there.
CREATE TABLE cached_usage (
    playbook_id INTEGER NOT NULL,
    code_version INTEGER NOT NULL,
    position {bigint} NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (playbook_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
){keyed};
