-- Appends a batch of events of many streams in one transaction; the only way into `event`.
--
-- events: in the order of submission. Events of one stream and epoch must be consecutive versions, ascending.
-- Returns one row per (stream, epoch) of the batch, in order of first appearance. accepted: all its events are stored;
-- else none of them is, and found_epoch / found_version say why (0 / 0: nobody has claimed the stream).
-- batch_position: position of the batch's event n is batch_position + n, n from 1.
--
-- Errors: EL003 positions would go backwards (a restored dump, see raise_position_base); EL004 malformed batch.
-- Locks: the streams' rows in `stream`, FOR NO KEY UPDATE, in order of id, so two writers can't deadlock.
-- Index: stream_pkey.
--
-- Position = base + (transaction number << 20) + ordinal: no lock, no sequence. A reader that stays below
-- base + (pg_snapshot_xmin << 20) can't miss a late commit. The transaction number is taken before the clock is read:
-- so who sees no running transaction below a snapshot has seen every event recorded before that snapshot (`settle`).
CREATE FUNCTION append(events event_input[])
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
-- One plan for all sizes of batch. The planner takes an array for 10 rows, so nested loops look cheap to it and would be
-- quadratic; `stream` is reached by = ANY, which needs none.
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
AS $$
#variable_conflict use_column
DECLARE
    transaction_number CONSTANT bigint := pg_current_xact_id()::text::bigint;
    clock CONSTANT timestamptz := clock_timestamp();
    streams CONSTANT text[] := ARRAY(SELECT DISTINCT e.stream FROM unnest(events) AS e);
    start_position bigint;
    highest bigint;
BEGIN
    IF cardinality(events) >= 1 << 20 THEN
        RAISE EXCEPTION 'a batch of % events is too large', cardinality(events)
            USING ERRCODE = 'EL004', DETAIL = json_build_object('events', cardinality(events))::text;
    END IF;

    SELECT max(locked.position) INTO highest
    FROM (
        SELECT s.position FROM stream AS s WHERE s.id = ANY(streams) ORDER BY s.id FOR NO KEY UPDATE
    ) AS locked;

    -- A statement of its own: its snapshot is newer than the locks, so a base raised while we waited is seen.
    SELECT b.base + (transaction_number << 20) INTO start_position FROM position_base AS b;
    IF highest > start_position THEN
        RAISE EXCEPTION 'position % would not be above %', start_position, highest
            USING ERRCODE = 'EL003',
            DETAIL = json_build_object('position', start_position, 'highest', highest)::text,
            HINT = 'This database was restored from another cluster: call raise_position_base().';
    END IF;

    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT
            e.version, e.epoch, e.id, e.occurred_at, e.delivery, e.call, e.stream, e.type, e.sender, e.recipient,
            e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata, e.payload, e.ordinal
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
    ),
    asked AS (
        SELECT
            g.stream, g.epoch,
            min(g.version) - 1 AS expected, max(g.version) AS last_version, count(*) AS events,
            min(g.ordinal) AS first_ordinal, max(g.ordinal) AS last_ordinal
        FROM given AS g
        GROUP BY g.stream, g.epoch
    ),
    -- The heads are read as they were before this statement; they are locked, so nobody else can have changed them.
    decided AS MATERIALIZED (
        SELECT
            a.stream, a.epoch, a.first_ordinal, a.last_version, start_position + a.last_ordinal AS last_position,
            coalesce(s.epoch, 0) AS found_epoch, coalesce(s.version, 0) AS found_version,
            greatest(s.recorded_at, clock) AS recorded_at,
            coalesce(
                s.epoch = a.epoch AND s.version = a.expected AND a.last_version = a.expected + a.events, false
            ) AS accepted
        FROM asked AS a
        LEFT JOIN stream AS s ON s.id = a.stream AND s.id = ANY(streams)
    ),
    moved AS (
        UPDATE stream AS s
        SET version = d.last_version, position = d.last_position, recorded_at = d.recorded_at
        FROM decided AS d
        WHERE s.id = d.stream AND s.id = ANY(streams) AND d.accepted
    ),
    inserted AS (
        INSERT INTO event (
            version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload
        )
        SELECT
            g.version, start_position + g.ordinal, d.recorded_at, g.epoch, g.id, g.occurred_at,
            nullif(g.delivery, 0), nullif(g.call, 0), g.stream, g.type, g.sender, g.recipient,
            g.topic, g.message_id, g.message_type, g.outcome, g.cause, g.correlation, g.metadata, g.payload
        FROM given AS g
        INNER JOIN decided AS d ON d.stream = g.stream AND d.epoch = g.epoch AND d.accepted
    )
    SELECT
        d.stream, d.epoch, d.accepted, d.found_epoch, d.found_version, d.first_ordinal, d.last_version,
        d.last_position, d.recorded_at, start_position, clock
    FROM decided AS d
    ORDER BY d.first_ordinal;
END
$$;
