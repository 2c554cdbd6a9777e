-- What the planner is told of the sizes: without it, it takes a playbook for ten rows and reads all of them
-- wherever an equality on the playbook is enough to narrow the primary key. ANALYZE may replace the figures.
ANALYZE sqlite_schema;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('event', 'event', '1000000 1000000 1'),
    ('event', 'sqlite_autoindex_event_2', '1000000 1000000 1'),
    ('event', 'event_by_session', '1000000 1000000 20 1'),
    ('event', 'event_by_target', '200000 200000 2 1'),
    ('event', 'event_by_type', '200000 200000 50000 1'),
    ('event', 'event_target_once', '1000 1000 1000 1'),
    ('tag', 'tag', '1000000 1000000 1'),
    ('tag', 'tag_count', '1000000 1000000 1000 900 500'),
    ('session_window', 'session_window', '50000 50000 1'),
    ('session_window', 'window_open', '10 10 1'),
    ('retraction', 'retraction', '1000 1000 1'),
    ('retraction', 'retraction_by_target', '1000 1000 1'),
    ('record', 'record', '10000000 10000000 1'),
    ('bullet', 'bullet', '1000 1000 1'),
    ('projection', 'projection', '2 2 1');

ANALYZE sqlite_schema;
