"""The append-only store: events, schema, engines, append, projection, reading, and the playbook as of a position."""
