-- Positions are 1, 2, 3… without gaps; COPY fires row triggers too. The last one is asked for by its order: a session
-- keeps the plan that it made on an empty table, and for max() that reads another index whole, at every event.
CREATE OR REPLACE FUNCTION reflector_event_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.position <> 1 + coalesce(
        (SELECT position FROM event WHERE playbook_id = NEW.playbook_id ORDER BY position DESC LIMIT 1), 0
    ) THEN
        RAISE EXCEPTION 'append-only: the next position is one above the last (position: %)', NEW.position;
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS event_in_order ON event;
CREATE TRIGGER event_in_order BEFORE INSERT ON event
    FOR EACH ROW EXECUTE FUNCTION reflector_event_in_order();
