-- INSERT OR REPLACE would pass the DELETE trigger.
CREATE TRIGGER playbook_no_replace BEFORE INSERT ON playbook
WHEN EXISTS (SELECT 1 FROM playbook WHERE id = NEW.id OR name = NEW.name)
BEGIN
    SELECT RAISE(ABORT, 'append-only: this playbook exists');
END
