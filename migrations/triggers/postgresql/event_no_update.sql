-- The one opening: a text may be erased when an event.redacted names it and nothing else changes. Where counts or
-- tables rest on the text's event, the event.redacted must keep those facts; an event without prose is never erased.
-- One that was erased itself has a later one, which keeps them. Which types are wholly prose: reflector/events.
CREATE OR REPLACE FUNCTION reflector_event_no_update() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
DECLARE
    erased record;
BEGIN
    erased := OLD;
    erased.data := NULL;
    IF OLD.data IS NULL OR NEW IS DISTINCT FROM erased OR NOT EXISTS (
        SELECT 1 FROM event
        WHERE playbook_id = OLD.playbook_id AND type = 'event.redacted' AND target_id = OLD.event_id
            AND (
                OLD.type IN ({whole})
                OR OLD.type IN ({in_part}) AND (data IS NULL OR json_typeof(data::json -> 'kept') = 'object')
            )
    ) THEN
        RAISE EXCEPTION 'append-only: events are never changed (position: %)', OLD.position;
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS event_no_update ON event;
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
    FOR EACH ROW EXECUTE FUNCTION reflector_event_no_update();
