CREATE TRIGGER playbook_no_delete BEFORE DELETE ON playbook
BEGIN
    SELECT RAISE(ABORT, 'append-only: a playbook is never deleted');
END
