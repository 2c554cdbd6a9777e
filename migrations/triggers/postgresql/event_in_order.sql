-- Positions are 1, 2, 3… without gaps; COPY fires row triggers too. The last one is asked for by its order: a session
-- keeps the plan that it made on an empty table, and for max() that reads another index whole, at every event.
-- Times grow with positions, so one from a clock that is far ahead would stop every later append: only an event right
-- behind one that has such a time may have it too. Who wrote the row is the server's word, whatever the client says.
CREATE OR REPLACE FUNCTION reflector_event_in_order() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF NEW.position <> 1 + coalesce(
        (SELECT position FROM {event} WHERE playbook_id = NEW.playbook_id ORDER BY position DESC LIMIT 1), 0
    ) THEN
        RAISE EXCEPTION 'append-only: the next position is one above the last (position: %)', NEW.position;
    END IF;
    IF NEW.recorded_at COLLATE "C" > to_char(
        clock_timestamp() AT TIME ZONE 'UTC' + interval '1 minute', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    ) AND NOT EXISTS (
        SELECT 1 FROM {event}
        WHERE playbook_id = NEW.playbook_id AND position = NEW.position - 1
            AND NEW.recorded_at::timestamptz <= recorded_at::timestamptz + interval '1 millisecond'
    ) THEN
        RAISE EXCEPTION 'append-only: recorded more than a minute ahead of the server''s clock (%)', NEW.recorded_at
            USING ERRCODE = 'RF001';
    END IF;
    NEW.recorded_by := session_user;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS event_in_order ON event;
CREATE TRIGGER event_in_order BEFORE INSERT ON event
    FOR EACH ROW EXECUTE FUNCTION reflector_event_in_order();
