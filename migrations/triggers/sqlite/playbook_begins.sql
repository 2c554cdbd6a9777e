-- A playbook begins without an event: what stood there in its place would stop the first one.
CREATE TRIGGER playbook_begins BEFORE INSERT ON playbook
WHEN NOT (
    NEW.position = 0
    AND NEW.chain GLOB 'pl1:*' AND length(NEW.chain) = 68 AND substr(NEW.chain, 5) NOT GLOB '*[^0-9a-f]*'
    AND NEW.recorded_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'
)
BEGIN
    SELECT RAISE(ABORT, 'append-only: a playbook begins without an event');
END
