CREATE OR REPLACE FUNCTION reflector_playbook_no_delete() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'append-only: a playbook is never deleted (playbook: %)', OLD.name;
END $$;
DROP TRIGGER IF EXISTS playbook_no_delete ON playbook;
CREATE TRIGGER playbook_no_delete BEFORE DELETE ON playbook
    FOR EACH ROW EXECUTE FUNCTION reflector_playbook_no_delete();
