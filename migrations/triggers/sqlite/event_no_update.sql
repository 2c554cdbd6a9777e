-- The one opening: a text may be erased when an event.redacted names it and nothing else changes. Where counts or
-- tables rest on the text's event, the event.redacted must keep those facts; an event without prose is never erased.
-- One that was erased itself has a later one, which keeps them. Which types are wholly prose: reflector/events.
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
WHEN NOT (
    NEW.data IS NULL
    AND OLD.data IS NOT NULL
    AND NEW.playbook_id IS OLD.playbook_id
    AND NEW.position IS OLD.position
    AND NEW.event_id IS OLD.event_id
    AND NEW.type IS OLD.type
    AND NEW.schema_version IS OLD.schema_version
    AND NEW.occurred_at IS OLD.occurred_at
    AND NEW.recorded_at IS OLD.recorded_at
    AND NEW.actor IS OLD.actor
    AND NEW.session_id IS OLD.session_id
    AND NEW.reflection_id IS OLD.reflection_id
    AND NEW.target_id IS OLD.target_id
    AND NEW.data_hash IS OLD.data_hash
    AND NEW.meta IS OLD.meta
    AND NEW.chain IS OLD.chain
    AND NEW.recorded_by IS OLD.recorded_by
    AND EXISTS (
        SELECT 1 FROM event
        WHERE playbook_id = OLD.playbook_id AND type = 'event.redacted' AND target_id = OLD.event_id
            AND (
                OLD.type IN ({whole})
                OR OLD.type IN ({in_part}) AND (data IS NULL OR json_type(data, '$.kept') = 'object')
            )
    )
)
BEGIN
    SELECT RAISE(ABORT, 'append-only: events are never changed');
END
