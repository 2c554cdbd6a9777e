-- A bullet's text goes to the agents, so it is what an event says: the one that brought the bullet, a later one that
-- changed its text, or, where that was erased, what its erasure kept. The table's owner, who could take the trigger off,
-- is not held to it: a rebuild by them would read each event's data once more for each bullet.
CREATE OR REPLACE FUNCTION reflector_bullet_says_its_event() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
DECLARE
    said jsonb := jsonb_build_object('name', NEW.name, 'text', NEW.text);
    says jsonpath := '$.** ? (@.name == $name && @.text == $text)';
BEGIN
    IF pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN NEW;
    END IF;
    IF NEW.text <> '[redacted]' AND NOT EXISTS (
        SELECT 1 FROM event
        WHERE playbook_id = NEW.playbook_id AND position = NEW.position
            AND jsonb_path_exists(replace(data, '\u0000', '\ufffd')::jsonb, says, said)
    ) AND NOT EXISTS (
        SELECT 1 FROM event
        WHERE playbook_id = NEW.playbook_id AND type <> 'bullet.tagged'
            AND type IN ({wordings}, 'event.redacted')
            AND jsonb_path_exists(replace(data, '\u0000', '\ufffd')::jsonb, says, said)
    ) THEN
        RAISE EXCEPTION 'append-only: a bullet''s text is that of an event (bullet: %)', NEW.name;
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS bullet_says_its_event ON bullet;
CREATE TRIGGER bullet_says_its_event BEFORE INSERT OR UPDATE OF playbook_id, name, "position", text ON bullet
    FOR EACH ROW EXECUTE FUNCTION reflector_bullet_says_its_event();
