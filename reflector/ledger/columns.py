"""The tables of a ledger, generated from ledger/tables.py by `make docs`."""

#: All but the first two are filled again by a rebuild.
LEDGER_TABLES = (
    "playbook",
    "event",
    "bullet",
    "tag",
    "session_window",
    "retraction",
    "record",
    "projection",
    "cached_usage",
)
#: The columns that hold numbers; every other one holds text.
NUMBER_COLUMNS = frozenset(
    {
        "active",
        "attempts",
        "baseline_harmful",
        "baseline_helpful",
        "code_version",
        "harmful",
        "helpful",
        "id",
        "key",
        "ordinal",
        "playbook_id",
        "position",
        "recounted_at",
        "schema_version",
        "tag",
    }
)
