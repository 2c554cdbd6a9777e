-- The head moves forward only, and only to an event that is there. An empty playbook may become another one, whose
-- history is loaded into it. Where the playbook moved to another ledger, the head stays until the playbook has moved
-- back.
CREATE TRIGGER playbook_head_moves_on BEFORE UPDATE ON playbook
BEGIN
    SELECT CASE
        WHEN NEW.name IS NOT OLD.name
            OR NEW.id IS NOT OLD.id
            OR NEW.position < 0
            OR NEW.position = 0 AND NEW.recorded_at <> OLD.recorded_at
            OR OLD.position > 0 AND (
                NEW.position <= OLD.position OR NEW.recorded_at < OLD.recorded_at OR NEW.origin IS NOT OLD.origin
            )
            OR NEW.position > 0 AND NOT EXISTS (
                SELECT 1 FROM event
                WHERE playbook_id = NEW.id AND position = NEW.position
                    AND chain = NEW.chain AND recorded_at = NEW.recorded_at
            )
        THEN RAISE(ABORT, 'append-only: a playbook''s head only moves forward')
        WHEN EXISTS (
                SELECT 1 FROM event WHERE playbook_id = OLD.id AND position = OLD.position AND type = 'ledger.moved'
                    AND data LIKE '%"to":%"%'
            )
            AND NOT EXISTS (
                SELECT 1 FROM event
                WHERE playbook_id = OLD.id AND position = OLD.position + 1 AND type = 'ledger.arrived'
            )
        THEN RAISE(ABORT, 'append-only: this playbook moved to another ledger')
    END;
END
