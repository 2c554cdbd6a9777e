CREATE TRIGGER playbook_head_moves_on BEFORE UPDATE ON playbook
WHEN NEW.position < OLD.position
    OR NEW.origin IS NOT OLD.origin
    OR NEW.name IS NOT OLD.name
    OR NEW.id IS NOT OLD.id
BEGIN
    SELECT RAISE(ABORT, 'append-only: a playbook''s head only moves forward');
END
