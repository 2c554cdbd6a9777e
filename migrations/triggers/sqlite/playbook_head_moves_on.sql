-- The head moves forward only, and only to an event that is there.
CREATE TRIGGER playbook_head_moves_on BEFORE UPDATE ON playbook
WHEN NEW.position <= OLD.position
    OR NEW.recorded_at < OLD.recorded_at
    OR NEW.origin IS NOT OLD.origin
    OR NEW.name IS NOT OLD.name
    OR NEW.id IS NOT OLD.id
    OR NOT EXISTS (
        SELECT 1 FROM event
        WHERE playbook_id = NEW.id AND position = NEW.position
            AND chain = NEW.chain AND recorded_at = NEW.recorded_at
    )
BEGIN
    SELECT RAISE(ABORT, 'append-only: a playbook''s head only moves forward');
END
