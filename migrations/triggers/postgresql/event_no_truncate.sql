CREATE OR REPLACE FUNCTION reflector_no_truncate() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'append-only: % is never truncated', TG_TABLE_NAME;
END $$;
DROP TRIGGER IF EXISTS event_no_truncate ON event;
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event
    FOR EACH STATEMENT EXECUTE FUNCTION reflector_no_truncate();
