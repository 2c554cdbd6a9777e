-- Positions are 1, 2, 3… without gaps. A BEFORE INSERT trigger is also what stops INSERT OR REPLACE, which
-- deletes the rows it replaces without firing their DELETE triggers: an event may collide with no row at all.
CREATE TRIGGER event_in_order BEFORE INSERT ON event
BEGIN
    SELECT RAISE(ABORT, 'append-only: the next position is one above the last')
    WHERE NEW.position IS NOT
        1 + coalesce((SELECT max(position) FROM event WHERE playbook_id = NEW.playbook_id), 0);
    SELECT RAISE(ABORT, 'append-only: this event id is taken')
    WHERE EXISTS (SELECT 1 FROM event WHERE playbook_id = NEW.playbook_id AND event_id = NEW.event_id);
    SELECT RAISE(ABORT, 'append-only: this target is taken')
    WHERE NEW.type IN ({once})
        AND EXISTS (
            SELECT 1 FROM event
            WHERE playbook_id = NEW.playbook_id AND type = NEW.type AND target_id = NEW.target_id
                AND type IN ({once})
        );
END
