DROP TRIGGER IF EXISTS playbook_no_truncate ON playbook;
CREATE TRIGGER playbook_no_truncate BEFORE TRUNCATE ON playbook
    FOR EACH STATEMENT EXECUTE FUNCTION reflector_no_truncate();
