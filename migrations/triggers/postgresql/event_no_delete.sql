CREATE OR REPLACE FUNCTION reflector_event_no_delete() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'append-only: events are never deleted (position: %)', OLD.position;
END $$;
DROP TRIGGER IF EXISTS event_no_delete ON event;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
    FOR EACH ROW EXECUTE FUNCTION reflector_event_no_delete();
