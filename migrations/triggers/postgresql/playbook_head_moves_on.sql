-- The head moves forward only, and only to an event that is there. An empty playbook may become another one, whose
-- history is loaded into it. Where the playbook moved to another ledger, the head stays until the playbook has moved
-- back; that it moved is its owner's word.
CREATE OR REPLACE FUNCTION reflector_playbook_head_moves_on() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    IF NEW.name <> OLD.name OR NEW.id <> OLD.id OR NEW.position < 0
        OR NEW.position = 0 AND (
            NEW.recorded_at <> OLD.recorded_at
            OR NEW.chain <> 'pl1:' || encode(sha256('\x00'::bytea || convert_to(NEW.name || E'\n' || NEW.origin, 'UTF8')), 'hex')
        )
        OR OLD.position > 0 AND (
            NEW.position <= OLD.position OR NEW.recorded_at < OLD.recorded_at OR NEW.origin <> OLD.origin
        )
        OR NEW.position > 0 AND NOT coalesce((
            -- By its order, as in event_in_order.
            SELECT position = NEW.position AND chain = NEW.chain AND recorded_at = NEW.recorded_at
                AND (type <> 'ledger.moved' OR pg_has_role(current_user, (
                    SELECT relowner FROM pg_class WHERE oid = TG_RELID
                ), 'USAGE'))
            FROM event WHERE playbook_id = NEW.id AND position <= NEW.position ORDER BY position DESC LIMIT 1
        ), false)
    THEN
        RAISE EXCEPTION 'append-only: a playbook''s head only moves forward (playbook: %)', OLD.name;
    END IF;
    IF 'ledger.moved' = (
            SELECT CASE WHEN data LIKE '%"to":%"%' THEN type END FROM event
            WHERE playbook_id = OLD.id AND position <= OLD.position ORDER BY position DESC LIMIT 1
        )
        AND 'ledger.arrived' IS DISTINCT FROM (
            SELECT type FROM event WHERE playbook_id = OLD.id AND position > OLD.position ORDER BY position LIMIT 1
        )
    THEN
        RAISE EXCEPTION 'append-only: this playbook moved to another ledger (playbook: %)', OLD.name;
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS playbook_head_moves_on ON playbook;
CREATE TRIGGER playbook_head_moves_on BEFORE UPDATE ON playbook
    FOR EACH ROW EXECUTE FUNCTION reflector_playbook_head_moves_on();
