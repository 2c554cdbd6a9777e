-- The definition of a double count: one row for each class and each surplus tag, as `reflector double-counts` groups them.
-- D5 and D6 read the records' keys out of the events, eight bytes each in base64, which SQLite cannot decode, and only
-- where a playbook's windows brought more keys than are different. Each step joins two tables: of four, DuckDB joins all
-- pairs of a playbook first.
CREATE VIEW doubles AS
WITH RECURSIVE
standing AS MATERIALIZED (
    SELECT
        tag.playbook_id AS playbook_id,
        tag.position AS position,
        tag.name AS name,
        tag.tag AS verdict,
        tag.session_id AS session_id,
        tag.reflection_id AS reflection_id
    FROM playbook
    CROSS JOIN tag
    CROSS JOIN bullet
    WHERE tag.playbook_id = playbook.id AND tag.position > 0
        AND bullet.playbook_id = tag.playbook_id AND bullet.name = tag.name
        AND tag.active = 1 AND tag.tag <> 0 AND tag.reflection_id IS NOT NULL
),
completion AS MATERIALIZED (
    SELECT playbook_id, reflection_id, session_id, target_id FROM event
    WHERE type = 'reflection.completed' AND type <> 'bullet.tagged'
        AND reflection_id IS NOT NULL AND target_id IS NOT NULL
),
several AS MATERIALIZED (
    SELECT playbook_id, session_id FROM completion WHERE session_id IS NOT NULL
    GROUP BY playbook_id, session_id HAVING count(reflection_id) > 1
),
several_tags AS MATERIALIZED (
    SELECT playbook_id, reflection_id, name, min(verdict) AS least, max(verdict) AS most FROM standing
    GROUP BY playbook_id, reflection_id, name HAVING count(position) > 1
),
within AS MATERIALIZED (
    SELECT
        standing.playbook_id AS playbook_id,
        standing.position AS position,
        standing.name AS name,
        standing.verdict AS verdict,
        standing.session_id AS session_id,
        standing.reflection_id AS reflection_id,
        several_tags.least AS least,
        several_tags.most AS most,
        row_number() OVER (
            PARTITION BY standing.playbook_id, standing.reflection_id, standing.name, standing.verdict
            ORDER BY standing.position
        ) AS nth,
        min(standing.position) OVER (
            PARTITION BY standing.playbook_id, standing.reflection_id, standing.name, standing.verdict
        ) AS first
    FROM standing
    JOIN several_tags ON several_tags.playbook_id = standing.playbook_id
        AND several_tags.reflection_id = standing.reflection_id AND several_tags.name = standing.name
),
both_ways AS MATERIALIZED (
    SELECT * FROM within WHERE least < most
),
again AS MATERIALIZED (
    SELECT
        standing.playbook_id AS playbook_id,
        standing.name AS name,
        standing.verdict AS verdict,
        standing.session_id AS session_id,
        standing.reflection_id AS reflection_id,
        min(standing.position) AS position
    FROM standing
    JOIN several ON several.playbook_id = standing.playbook_id AND several.session_id = standing.session_id
    GROUP BY standing.playbook_id, standing.name, standing.verdict, standing.session_id, standing.reflection_id
),
listed AS MATERIALIZED (
    SELECT
        completion.playbook_id AS playbook_id,
        completion.session_id AS session_id,
        completion.reflection_id AS reflection_id,
        tag.name AS name,
        tag.tag AS verdict,
        row_number() OVER (
            PARTITION BY completion.playbook_id, completion.reflection_id ORDER BY tag.position
        ) AS nth,
        count(tag.position) OVER (PARTITION BY completion.playbook_id, completion.reflection_id) AS number
    FROM several
    JOIN event ON event.playbook_id = several.playbook_id AND event.session_id = several.session_id
    JOIN tag ON tag.playbook_id = event.playbook_id AND tag.position = event.position
    JOIN completion ON completion.playbook_id = tag.playbook_id AND completion.reflection_id = tag.reflection_id
        AND completion.session_id = several.session_id
),
packed AS MATERIALIZED (
    SELECT
        recorded.playbook_id AS playbook_id,
        recorded.position AS position,
        {sqlite}rtrim{postgresql}decode{both}(coalesce({recorded.data -> window.keys}, (
            WITH RECURSIVE line(event_id, data) AS (
                SELECT recorded.event_id, NULL
                UNION ALL
                SELECT redaction.event_id, redaction.data FROM line
                JOIN event AS redaction ON redaction.playbook_id = recorded.playbook_id
                    AND redaction.target_id = line.event_id AND redaction.type = 'event.redacted'
            )
            SELECT {line.data -> kept.window.keys} FROM line WHERE line.data IS NOT NULL
        ), ''), {sqlite}'='{postgresql}'base64'{both}) AS keys
    FROM event AS recorded
    WHERE recorded.type = 'session.recorded' AND recorded.type <> 'bullet.tagged'
),
overlapping AS MATERIALIZED (
    SELECT packed.playbook_id AS playbook_id FROM packed
    GROUP BY packed.playbook_id
    HAVING sum({sqlite}CAST(length(packed.keys) * 6 / 64 AS BIGINT){postgresql}length(packed.keys) / 8{both})
        > (SELECT count(record.key) FROM record WHERE record.playbook_id = packed.playbook_id)
),
{sqlite}
number(n, most) AS (
    SELECT 0, coalesce(max(length(packed.keys)), 0) * 6 / 64
    FROM packed
    JOIN overlapping ON overlapping.playbook_id = packed.playbook_id
    UNION ALL
    SELECT n + 1, most FROM number WHERE n + 1 < most
),
bits AS MATERIALIZED (
    SELECT
        packed.playbook_id AS playbook_id,
        packed.position AS position,
        number.n * 64 % 6 AS shift,
        substr(packed.keys || 'AA', CAST((number.n * 64 - number.n * 64 % 6) / 6 AS BIGINT) + 1, 12) AS key
    FROM overlapping
    JOIN packed ON packed.playbook_id = overlapping.playbook_id
    JOIN number ON (number.n + 1) * 64 <= length(packed.keys) * 6
),
digit(letters) AS (SELECT 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'),
half AS MATERIALIZED (
    SELECT
        bits.playbook_id AS playbook_id,
        bits.position AS position,
        bits.shift AS shift,
        (instr(letters, substr(key, 1, 1)) - 1) * 1073741824 + (instr(letters, substr(key, 2, 1)) - 1) * 16777216
        + (instr(letters, substr(key, 3, 1)) - 1) * 262144 + (instr(letters, substr(key, 4, 1)) - 1) * 4096
        + (instr(letters, substr(key, 5, 1)) - 1) * 64 + instr(letters, substr(key, 6, 1)) - 1 AS high,
        (instr(letters, substr(key, 7, 1)) - 1) * 1073741824 + (instr(letters, substr(key, 8, 1)) - 1) * 16777216
        + (instr(letters, substr(key, 9, 1)) - 1) * 262144 + (instr(letters, substr(key, 10, 1)) - 1) * 4096
        + (instr(letters, substr(key, 11, 1)) - 1) * 64 + instr(letters, substr(key, 12, 1)) - 1 AS low
    FROM bits
    CROSS JOIN digit
),
taken AS MATERIALIZED (
    SELECT DISTINCT
        playbook_id,
        position,
        (high >> (4 - shift)) & 4294967295 AS high,
        ((high & ((1 << (4 - shift)) - 1)) << (28 + shift)) | (low >> (8 - shift)) AS low
    FROM half
),
{postgresql}
taken AS MATERIALIZED (
    SELECT DISTINCT
        packed.playbook_id AS playbook_id,
        packed.position AS position,
        substring(packed.keys FROM place.n * 8 + 1 FOR 8) AS key
    FROM overlapping
    JOIN packed ON packed.playbook_id = overlapping.playbook_id
    CROSS JOIN generate_series(0, length(packed.keys) / 8 - 1) AS place(n)
),
{both}
pair AS MATERIALIZED (
    SELECT DISTINCT holder.playbook_id AS playbook_id, holder.position AS one, taken.position AS other
    FROM taken AS holder
    JOIN taken ON taken.playbook_id = holder.playbook_id AND taken.position > holder.position
        AND {sqlite}taken.high = holder.high AND taken.low = holder.low{postgresql}taken.key = holder.key{both}
),
window_of AS MATERIALIZED (
    SELECT
        event.playbook_id AS playbook_id,
        event.position AS position,
        coalesce(event.session_id, '') AS session_id,
        completion.reflection_id AS reflection_id
    FROM completion
    JOIN event ON event.playbook_id = completion.playbook_id AND event.event_id = completion.target_id
),
sharing_one AS MATERIALIZED (
    SELECT
        pair.playbook_id AS playbook_id,
        window_of.session_id AS session_id,
        window_of.reflection_id AS one,
        pair.other AS position
    FROM pair
    JOIN window_of ON window_of.playbook_id = pair.playbook_id AND window_of.position = pair.one
),
sharing AS MATERIALIZED (
    SELECT
        sharing_one.playbook_id AS playbook_id,
        CASE WHEN window_of.session_id = sharing_one.session_id THEN 'D6' ELSE 'D5' END AS class,
        sharing_one.one AS one,
        window_of.reflection_id AS other
    FROM sharing_one
    JOIN window_of ON window_of.playbook_id = sharing_one.playbook_id
        AND window_of.position = sharing_one.position
),
twin AS MATERIALIZED (
    SELECT playbook_id, class, one, other FROM sharing
    UNION
    SELECT playbook_id, class, other, one FROM sharing
    UNION
    SELECT one.playbook_id, 'D3' AS class, one.reflection_id, other.reflection_id
    FROM listed AS one
    JOIN listed AS other ON other.playbook_id = one.playbook_id AND other.session_id = one.session_id
        AND other.nth = one.nth AND other.name = one.name AND other.verdict = one.verdict
        AND other.number = one.number AND other.reflection_id <> one.reflection_id
    GROUP BY one.playbook_id, one.reflection_id, other.reflection_id, one.number
    HAVING count(one.nth) = one.number
),
group_of AS MATERIALIZED (
    SELECT
        standing.playbook_id AS playbook_id,
        standing.reflection_id AS reflection_id,
        standing.name AS name,
        standing.verdict AS verdict,
        min(standing.position) AS first
    FROM standing
    JOIN (SELECT DISTINCT playbook_id, one FROM twin) AS known
        ON known.playbook_id = standing.playbook_id AND known.one = standing.reflection_id
    GROUP BY standing.playbook_id, standing.reflection_id, standing.name, standing.verdict
),
given_first AS MATERIALIZED (
    SELECT
        twin.playbook_id AS playbook_id,
        twin.class AS class,
        twin.other AS reflection_id,
        group_of.name AS name,
        group_of.verdict AS verdict,
        min(group_of.first) AS first
    FROM twin
    JOIN group_of ON group_of.playbook_id = twin.playbook_id AND group_of.reflection_id = twin.one
    GROUP BY twin.playbook_id, twin.class, twin.other, group_of.name, group_of.verdict
),
given_again AS MATERIALIZED (
    SELECT
        given_first.playbook_id AS playbook_id,
        given_first.class AS class,
        given_first.reflection_id AS reflection_id,
        given_first.name AS name,
        given_first.verdict AS verdict,
        given_first.first AS first
    FROM given_first
    JOIN group_of ON group_of.playbook_id = given_first.playbook_id
        AND group_of.reflection_id = given_first.reflection_id AND group_of.name = given_first.name
        AND group_of.verdict = given_first.verdict AND group_of.first > given_first.first
),
found AS (
    SELECT
        playbook_id, 'D1' AS class, name, CASE WHEN verdict > 0 THEN 'helpful' ELSE 'harmful' END AS tag,
        position, first AS of_position, session_id, reflection_id
    FROM within
    WHERE nth > 1
    UNION ALL
    SELECT
        up.playbook_id, 'D2' AS class, up.name, 'both' AS tag,
        CASE WHEN up.position > down.position THEN up.position ELSE down.position END,
        CASE WHEN up.position > down.position THEN down.position ELSE up.position END,
        CASE WHEN up.position > down.position THEN up.session_id ELSE down.session_id END,
        up.reflection_id
    FROM both_ways AS up
    JOIN both_ways AS down ON down.playbook_id = up.playbook_id AND down.reflection_id = up.reflection_id
        AND down.name = up.name AND down.nth = up.nth
    WHERE up.verdict = 1 AND down.verdict = -1
    UNION ALL
    SELECT
        given_again.playbook_id, given_again.class, standing.name,
        CASE WHEN standing.verdict > 0 THEN 'helpful' ELSE 'harmful' END,
        standing.position, given_again.first, standing.session_id, standing.reflection_id
    FROM given_again
    JOIN standing ON standing.playbook_id = given_again.playbook_id
        AND standing.reflection_id = given_again.reflection_id AND standing.name = given_again.name
        AND standing.verdict = given_again.verdict
    UNION ALL
    SELECT
        playbook_id, 'D4' AS class, name, CASE WHEN verdict > 0 THEN 'helpful' ELSE 'harmful' END, position, first, session_id,
        reflection_id
    FROM (
        SELECT
            playbook_id, name, verdict, session_id, reflection_id, position,
            min(position) OVER (PARTITION BY playbook_id, name, verdict, session_id) AS first
        FROM again
    ) AS each_reflection
    WHERE position > first
)
SELECT
    playbook.name AS playbook,
    found.class AS class,
    CASE found.class
        WHEN 'D1' THEN 'the same tag twice in one reflection'
        WHEN 'D2' THEN 'helpful and harmful together in one reflection'
        WHEN 'D3' THEN 'the same list of tags applied twice'
        WHEN 'D4' THEN 'one session reflected on more than once'
        WHEN 'D5' THEN 'records of one transcript under two session ids'
        WHEN 'D6' THEN 'overlapping windows of one session'
    END AS what,
    found.name AS name,
    found.tag AS tag,
    found.position AS position,
    found.of_position AS of_position,
    found.session_id AS session_id,
    found.reflection_id AS reflection_id
FROM found
JOIN playbook ON playbook.id = found.playbook_id
