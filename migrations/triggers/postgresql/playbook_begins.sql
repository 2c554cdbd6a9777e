-- A playbook begins at its genesis, and now: what stood there in its place would stop its first event.
CREATE OR REPLACE FUNCTION reflector_playbook_begins() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF NEW.position <> 0 OR NEW.recorded_at !~ '^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{6}Z$'
        OR NEW.chain <> 'pl1:' || encode(sha256('\x00'::bytea || convert_to(NEW.name || E'\n' || NEW.origin, 'UTF8')), 'hex')
    THEN
        RAISE EXCEPTION 'append-only: a playbook begins without an event (playbook: %)', NEW.name;
    END IF;
    IF NEW.recorded_at::timestamptz > clock_timestamp() + interval '1 minute' THEN
        RAISE EXCEPTION 'append-only: recorded more than a minute ahead of the server''s clock (%)', NEW.recorded_at
            USING ERRCODE = 'RF001';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS playbook_begins ON playbook;
CREATE TRIGGER playbook_begins BEFORE INSERT ON playbook
    FOR EACH ROW EXECUTE FUNCTION reflector_playbook_begins();
