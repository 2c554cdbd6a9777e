-- Positions are 1, 2, 3… without gaps, as each statement leaves them: it is looked at once, for all rows that it brings,
-- by COPY too. No position comes twice (the key), so rows without a gap between them follow the last one if they are the
-- last now and the one before them is there. Positions are asked for by their order: a session keeps the plan that it
-- made on an empty table, and for max() that reads another index whole.
-- What no event is stays out, for every reader would meet it: data and meta are JSON objects as jsonb takes them (not too
-- deep, no half a character; a NUL is allowed), the time is as a ledger writes it, and the hashes are right, but for the
-- first event's: its playbook may become another one. Whether the data is what its type says, readers ask.
-- Times grow with positions, so one from a clock that is far ahead would stop every later append: only an event right
-- behind one that has such a time may have it too. Who wrote the row is the server's word: what the client says must be
-- the same. A text is erased by the owner, so a writer announces none.
ALTER TABLE event ALTER COLUMN recorded_by SET DEFAULT session_user;
CREATE OR REPLACE FUNCTION reflector_event_in_order() RETURNS trigger LANGUAGE plpgsql
SET search_path = {schema}, pg_temp AS $$
DECLARE
    latest text COLLATE "C" := to_char(
        clock_timestamp() AT TIME ZONE 'UTC' + interval '1 minute', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
    );
    one record;
    previous record;
BEGIN
    IF EXISTS (
        SELECT 1 FROM added
        WHERE jsonb_typeof(replace(data, '\u0000', '\ufffd')::jsonb) <> 'object'
            OR jsonb_typeof(replace(meta, '\u0000', '\ufffd')::jsonb) <> 'object'
            OR type = 'ledger.moved' AND jsonb_typeof(data::jsonb -> 'to') IS DISTINCT FROM 'string'
            OR chain !~ '^pl1:[0-9a-f]{64}$'
            OR recorded_at !~ '^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{6}Z$'
            OR event_id = '' OR concat(event_id, type, occurred_at, actor, session_id, reflection_id, target_id) ~ '\n'
    ) THEN
        RAISE EXCEPTION 'append-only: data and meta are JSON objects, a chain is a hash, a time is a time';
    END IF;
    IF EXISTS (
        SELECT 1 FROM added JOIN event AS target USING (playbook_id)
        WHERE added.type = 'event.redacted' AND target.event_id = added.target_id AND target.data IS NOT NULL
    ) AND NOT pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RAISE EXCEPTION 'permission denied: the owner erases texts' USING ERRCODE = 'insufficient_privilege';
    END IF;
    FOR one IN
        SELECT playbook_id, min(position) AS first, max(position) AS last, count(*) AS number,
            max(recorded_at COLLATE "C") AS recorded_at, bool_and(recorded_by IS NOT DISTINCT FROM session_user) AS is_ours
        FROM added GROUP BY playbook_id
    LOOP
        SELECT position, recorded_at, chain INTO previous FROM event
            WHERE playbook_id = one.playbook_id AND position < one.first ORDER BY position DESC LIMIT 1;
        IF one.number <> one.last - one.first + 1 OR one.first <> 1 + coalesce(previous.position, 0) OR one.last <> (
            SELECT position FROM event WHERE playbook_id = one.playbook_id ORDER BY position DESC LIMIT 1
        ) THEN
            RAISE EXCEPTION 'append-only: the next position is one above the last (position: %)', one.first;
        END IF;
        IF one.recorded_at > latest AND EXISTS (
            SELECT 1 FROM added WHERE playbook_id = one.playbook_id AND recorded_at COLLATE "C" > latest AND NOT EXISTS (
                SELECT 1 FROM event AS before
                WHERE before.playbook_id = added.playbook_id AND before.position = added.position - 1
                    AND added.recorded_at::timestamptz <= before.recorded_at::timestamptz + interval '1 millisecond'
            )
        ) THEN
            RAISE EXCEPTION 'append-only: recorded more than a minute ahead of the server''s clock (%)', one.recorded_at
                USING ERRCODE = 'RF001';
        END IF;
        IF NOT one.is_ours THEN
            RAISE EXCEPTION 'append-only: the server says who recorded an event (recorded by: %)', session_user;
        END IF;
        IF EXISTS (
            SELECT 1 FROM (
                SELECT *, lag(recorded_at, 1, previous.recorded_at) OVER (ORDER BY position) AS earlier,
                    lag(chain, 1, previous.chain) OVER (ORDER BY position) AS link
                FROM added WHERE playbook_id = one.playbook_id
            ) AS row
            WHERE recorded_at COLLATE "C" < earlier COLLATE "C" OR data_hash <> encode(sha256(convert_to(data, 'UTF8')), 'hex')
                OR CASE WHEN link ~ '^pl1:[0-9a-f]{64}$' THEN
                    chain <> 'pl1:' || encode(sha256('\x03'::bytea || decode(substr(link, 5), 'hex') || sha256(
                        '\x01'::bytea || convert_to(concat_ws(
                            E'\n', position, event_id, type, schema_version, occurred_at, recorded_at, actor,
                            coalesce(session_id, ''), coalesce(reflection_id, ''), coalesce(target_id, ''),
                            data_hash, encode(sha256(convert_to(meta, 'UTF8')), 'hex')
                        ), 'UTF8')
                    )), 'hex')
                END
        ) THEN
            RAISE EXCEPTION 'append-only: the events do not follow from the last one (position: %)', one.first;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS event_in_order ON event;
CREATE TRIGGER event_in_order AFTER INSERT ON event REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION reflector_event_in_order();
