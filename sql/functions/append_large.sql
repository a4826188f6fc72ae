-- `append` for a batch with large payloads: events hold references (`is_reference`), and payloads what they refer to, each
-- once. Those of the streams that were accepted are kept for the month in which their events were recorded.
--
-- Returns and raises what `append` does; EL004 also where a reference has nothing to refer to.
-- Locks: as `append`; then rows of `large_payload` in order of their hash, where another batch inserts the same.
CREATE FUNCTION append_large(events event_input[], payloads bytea[])
RETURNS TABLE (
    stream text,
    epoch bigint,
    accepted boolean,
    found_epoch bigint,
    found_version bigint,
    first_ordinal bigint,
    last_version bigint,
    last_position bigint,
    recorded_at timestamptz,
    batch_position bigint,
    batch_recorded_at timestamptz
)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    hashes CONSTANT bytea[] := ARRAY(SELECT sha256(p.payload) FROM unnest(payloads) AS p (payload));
BEGIN
    IF EXISTS (
        SELECT FROM unnest(events) AS e
        WHERE is_reference(e.payload) AND substr(e.payload, 2) <> ALL(hashes)
    ) THEN
        RAISE EXCEPTION 'an event refers to a payload that is not in its batch'
            USING ERRCODE = 'EL004', DETAIL = json_build_object('payloads', cardinality(payloads))::text;
    END IF;
    RETURN QUERY
    WITH said AS MATERIALIZED (
        SELECT a.* FROM append(events) AS a
    ),
    wanted AS (
        SELECT DISTINCT substr(e.payload, 2) AS hash, date_trunc('month', said.recorded_at, 'UTC') AS month
        FROM unnest(events) AS e
        INNER JOIN said ON said.stream = e.stream AND said.accepted
        WHERE is_reference(e.payload)
    ),
    kept AS (
        INSERT INTO large_payload (hash, month, payload)
        SELECT w.hash, w.month, payloads[array_position(hashes, w.hash)]
        FROM wanted AS w
        ORDER BY w.hash, w.month
        ON CONFLICT DO NOTHING
    )
    SELECT said.* FROM said;
END
$$;
