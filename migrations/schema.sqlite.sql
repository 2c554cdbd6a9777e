-- generated from reflector/ledger/tables.py by `make docs`

--   origin: a random number that distinguishes ledgers of the same name
--   position: of the last event
--   chain: hash of the last event and of all before it
--   recorded_at: time of the last event
CREATE TABLE playbook (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    origin TEXT NOT NULL,
    position INTEGER NOT NULL,
    chain TEXT NOT NULL,
    recorded_at TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
)
 STRICT;

--   position: 1, 2, 3 … of the playbook
--   event_id: the same on every machine that has the event
--   type: such as bullet.tagged; docs/events.md lists them
--   schema_version: of the event's data
--   occurred_at: time of the event, ISO 8601 in UTC
--   recorded_at: time of the append, later than the time of the event before
--   actor: who caused the event: human, agent, a judge
--   session_id: the agent's session
--   reflection_id: the reflection that the event belongs to
--   target_id: the event that this event is about
--   data: JSON; null if the data was redacted
--   data_hash: SHA-256 of `data`, kept when `data` is redacted
--   meta: JSON: tokens, cost, transaction
--   chain: hash of this event and of all before it
--   recorded_by: the login on a server; not covered by the chain
CREATE TABLE event (
    playbook_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
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
)
 WITHOUT ROWID,
 STRICT;

CREATE INDEX event_by_session ON event (playbook_id, session_id, position) WHERE session_id IS NOT NULL;

CREATE INDEX event_by_target ON event (playbook_id, target_id, position) WHERE target_id IS NOT NULL;

CREATE INDEX event_by_type ON event (playbook_id, type, position) WHERE type <> 'bullet.tagged';

CREATE UNIQUE INDEX event_target_once ON event (playbook_id, type, target_id) WHERE type IN ('evidence.retracted', 'event.redacted', 'change.approved', 'change.rejected', 'change.measured');

--   name: such as pat-001; never used twice
--   ordinal: 1, 2, 3 … in order of creation
--   section: pat, mis, pref, ctx or oth
--   status: live, removed, merged or watched
--   reason: why the rule was removed
--   removed_into: the rule into which this rule was merged
--   position: of the event that added the rule
--   recounted_at: of the last recount; earlier verdicts do not count
--   baseline_helpful: the count that the rule began with, or that was set by hand
--   baseline_harmful: the count that the rule began with, or that was set by hand
--   helpful: the start value plus the helpful verdicts that count
--   harmful: the start value plus the harmful verdicts that count
CREATE TABLE bullet (
    playbook_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    section TEXT NOT NULL,
    text TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    removed_into TEXT,
    position INTEGER NOT NULL,
    recounted_at INTEGER NOT NULL,
    baseline_helpful INTEGER NOT NULL,
    baseline_harmful INTEGER NOT NULL,
    helpful INTEGER NOT NULL CONSTRAINT helpful_not_negative CHECK (helpful >= 0),
    harmful INTEGER NOT NULL CONSTRAINT harmful_not_negative CHECK (harmful >= 0),
    PRIMARY KEY (playbook_id, name),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

CREATE INDEX bullet_merged ON bullet (playbook_id, removed_into) WHERE status = 'merged';

--   position: of the tag's event
--   name: of the bullet
--   tag: 1 helpful, -1 harmful, 0 if the verdict can never count
--   active: 1 while the verdict counts
CREATE TABLE tag (
    playbook_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    tag INTEGER NOT NULL,
    active INTEGER NOT NULL,
    session_id TEXT,
    reflection_id TEXT,
    PRIMARY KEY (playbook_id, position),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

CREATE INDEX tag_count ON tag (playbook_id, name, active, tag);

--   position: of the recording event
--   state: pending, answered, failed, completed, skipped or given_up
--   changed_at: time of the last event about this part of the session
CREATE TABLE session_window (
    playbook_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    session_id TEXT,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    changed_at TEXT NOT NULL,
    PRIMARY KEY (playbook_id, position),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

CREATE INDEX window_open ON session_window (playbook_id, position) WHERE state IN ('pending', 'answered', 'failed');

--   target_id: the retracted event
--   active: 0 if the retraction was retracted
CREATE TABLE retraction (
    playbook_id INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    active INTEGER NOT NULL,
    PRIMARY KEY (playbook_id, event_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

CREATE UNIQUE INDEX retraction_by_target ON retraction (playbook_id, target_id);

--   key: key of a transcript's record; a resumed session adds only records with new keys
CREATE TABLE record (
    playbook_id INTEGER NOT NULL,
    "key" INTEGER NOT NULL,
    PRIMARY KEY (playbook_id, "key"),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

--   name: `tables`, or a file such as playbook.json
--   code_version: of the program that filled it
--   policy_id: the counting policy
--   position: of the last event in it
--   state_hash: for tables, the digest of triggers and views; for a file, its SHA-256
--   updated_at: when a rule or a count last changed
CREATE TABLE projection (
    playbook_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    code_version INTEGER NOT NULL,
    policy_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    state_hash TEXT NOT NULL,
    updated_at TEXT,
    PRIMARY KEY (playbook_id, name),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;

--   position: of the last event in it
--   state: JSON: the state of ledger/usage.py
CREATE TABLE cached_usage (
    playbook_id INTEGER NOT NULL,
    code_version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (playbook_id),
    FOREIGN KEY(playbook_id) REFERENCES playbook (id)
)
 WITHOUT ROWID,
 STRICT;
