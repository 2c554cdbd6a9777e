-- Positions are 1, 2, 3… without gaps. A BEFORE INSERT trigger is also what stops INSERT OR REPLACE, which
-- deletes the rows it replaces without firing their DELETE triggers: an event may collide with no row at all.
-- What no event is stays out, for every reader would meet it; whether the data is what its type says, readers ask.
CREATE TRIGGER event_in_order BEFORE INSERT ON event
BEGIN
    SELECT CASE
        WHEN NEW.position IS NOT
            1 + coalesce((SELECT max(position) FROM event WHERE playbook_id = NEW.playbook_id), 0)
        THEN RAISE(ABORT, 'append-only: the next position is one above the last')
        WHEN NOT (
            CASE WHEN json_valid(NEW.data) THEN json_type(NEW.data) = 'object' ELSE NEW.data IS NULL END
            AND CASE WHEN json_valid(NEW.meta) THEN json_type(NEW.meta) = 'object' ELSE 0 END
            AND (NEW.type <> 'ledger.moved' OR json_type(NEW.data, '$.to') IS 'text')
            AND NEW.chain GLOB 'pl1:*' AND length(NEW.chain) = 68 AND substr(NEW.chain, 5) NOT GLOB '*[^0-9a-f]*'
            AND NEW.recorded_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'
            AND NEW.event_id <> ''
            AND instr(
                NEW.event_id || NEW.type || NEW.occurred_at || NEW.actor || coalesce(NEW.session_id, '')
                    || coalesce(NEW.reflection_id, '') || coalesce(NEW.target_id, ''),
                char(10)
            ) = 0
        )
        THEN RAISE(ABORT, 'append-only: data and meta are JSON objects, a chain is a hash, a time is a time')
        WHEN NEW.recorded_at
            < (SELECT recorded_at FROM event WHERE playbook_id = NEW.playbook_id AND position = NEW.position - 1)
        THEN RAISE(ABORT, 'append-only: recorded before the event in front of it')
        WHEN EXISTS (SELECT 1 FROM event WHERE playbook_id = NEW.playbook_id AND event_id = NEW.event_id)
        THEN RAISE(ABORT, 'append-only: this event id is taken')
        WHEN NEW.type IN ({once})
            AND EXISTS (
                SELECT 1 FROM event
                WHERE playbook_id = NEW.playbook_id AND type = NEW.type AND target_id = NEW.target_id
                    AND type IN ({once})
            )
        THEN RAISE(ABORT, 'append-only: this target is taken')
    END;
END
