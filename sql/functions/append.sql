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
-- One plan for all sizes of batch, and for as long as the session lasts. The planner takes an array for 10 rows, so
-- nested loops look cheap to it and would be quadratic; and a scan of a `stream` that is small today would still be
-- the plan when it has grown. `stream` is reached by = ANY, which needs neither. What is switched off makes plans look
-- dear, and a dear plan is compiled (300 ms): so no jit either.
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    transaction_number CONSTANT bigint := pg_current_xact_id()::text::bigint;
    clock CONSTANT timestamptz := clock_timestamp();
    start_position bigint;
    highest bigint;
    heads tid[];
    ids text[];
    epochs bigint[];
    versions bigint[];
    times timestamptz[];
BEGIN
    IF cardinality(events) >= 1 << 20 THEN
        RAISE EXCEPTION 'a batch of % events is too large', cardinality(events)
            USING ERRCODE = 'EL004', DETAIL = json_build_object('events', cardinality(events))::text;
    END IF;

    -- Whoever raises the base locks the whole of `stream`. We wait for that before this statement's snapshot is taken,
    -- because the tables of a plan are locked first; so the base read here is the raised one.
    SELECT
        (SELECT b.base + (transaction_number << 20) FROM position_base AS b),
        max(l.position), array_agg(l.head), array_agg(l.id), array_agg(l.epoch), array_agg(l.version),
        array_agg(l.recorded_at)
    INTO start_position, highest, heads, ids, epochs, versions, times
    FROM (
        SELECT s.ctid AS head, s.id, s.epoch, s.version, s.position, s.recorded_at
        FROM stream AS s
        WHERE s.id = ANY(ARRAY(SELECT e.stream FROM unnest(events) AS e GROUP BY e.stream))
        ORDER BY s.id
        FOR NO KEY UPDATE
    ) AS l;
    IF highest > start_position THEN
        RAISE EXCEPTION 'position % would not be above %', start_position, highest
            USING ERRCODE = 'EL003',
            DETAIL = json_build_object('position', start_position, 'highest', highest)::text,
            HINT = 'This database was restored from another cluster: call raise_position_base().';
    END IF;

    RETURN QUERY
    WITH asked AS (
        SELECT
            e.stream, e.epoch,
            min(e.version) - 1 AS expected, max(e.version) AS last_version, count(*) AS events,
            min(e.ordinal) AS first_ordinal, max(e.ordinal) AS last_ordinal
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
        GROUP BY e.stream, e.epoch
    ),
    decided AS MATERIALIZED (
        SELECT
            a.stream, a.epoch, a.first_ordinal, a.last_version, start_position + a.last_ordinal AS last_position,
            coalesce(h.epoch, 0) AS found_epoch, coalesce(h.version, 0) AS found_version,
            greatest(h.recorded_at, clock) AS recorded_at,
            coalesce(
                h.epoch = a.epoch AND h.version = a.expected AND a.last_version = a.expected + a.events, false
            ) AS accepted
        FROM asked AS a
        LEFT JOIN unnest(ids, epochs, versions, times) AS h (id, epoch, version, recorded_at) ON h.id = a.stream
    ),
    moved AS (
        -- By ctid: the rows are locked, so they are where they were found.
        UPDATE stream AS s
        SET version = d.last_version, position = d.last_position, recorded_at = d.recorded_at
        FROM decided AS d
        WHERE s.ctid = ANY(heads) AND s.id = d.stream AND d.accepted
    ),
    inserted AS (
        INSERT INTO event (
            version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload
        )
        SELECT
            e.version, start_position + e.ordinal, d.recorded_at, e.epoch, e.id, e.occurred_at,
            nullif(e.delivery, 0), nullif(e.call, 0), e.stream, e.type, e.sender, e.recipient,
            e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata, e.payload
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
        INNER JOIN decided AS d ON d.stream = e.stream AND d.epoch = e.epoch AND d.accepted
    )
    SELECT
        d.stream, d.epoch, d.accepted, d.found_epoch, d.found_version, d.first_ordinal, d.last_version,
        d.last_position, d.recorded_at, start_position, clock
    FROM decided AS d
    ORDER BY d.first_ordinal;
END
$$;
