-- Appends a batch of events of many streams in one transaction; the only way into `event`.
--
-- events: in the order of submission. Events of one stream are of one epoch and consecutive, ascending versions.
-- Returns one row per stream. accepted: all its events are stored; else none of them is, and found_epoch /
-- found_version say why (0 / 0: nobody has claimed the stream; NULL when accepted).
-- batch_position: position of the batch's event n is batch_position + n, n from 1.
--
-- Errors: EL003 positions would go backwards (a restored dump, see raise_position_base); EL004 malformed batch.
-- Locks: the streams' rows in `stream`, by the UPDATE, in order of id as the index gives them. (Two writers with the same
-- streams, one of them stale, should the order ever differ: deadlock is an error that the writer tries again after.)
-- Indexes: stream_pkey.
--
-- A batch of one stream, as a single caller makes it, takes a short path with the same rules (a quarter less of the
-- server's time); what it doesn't store, the rest of the function refuses.
--
-- The check is the UPDATE itself: it waits for whoever holds the row, then looks at epoch and version again.
-- Position = base + (transaction number << 20) + ordinal: no lock, no sequence. A reader that stays below
-- base + (pg_snapshot_xmin << 20) can't miss a late commit. The transaction number is taken before the clock is read:
-- so who sees no running transaction below a number has seen every event recorded before it was given out (`settle`).
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
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    transaction_number CONSTANT bigint := pg_current_xact_id()::text::bigint;
    clock CONSTANT timestamptz := clock_timestamp();
    size CONSTANT bigint := cardinality(events);
    only_stream CONSTANT text := (events[1]).stream;
    only_epoch CONSTANT bigint := (events[1]).epoch;
    expected CONSTANT bigint := (events[1]).version - 1;
    streams text[];
    stored bigint;
    said record;
BEGIN
    IF size >= 1 << 20 THEN
        RAISE EXCEPTION 'a batch of % events is too large', size
            USING ERRCODE = 'EL004', DETAIL = json_build_object('events', size)::text;
    END IF;

    -- In both paths: whoever raises the base locks the whole of `stream`. We wait for that before the snapshot of the
    -- statement with the UPDATE is taken, because the tables of a plan are locked first; so the base that it reads is the
    -- raised one.

    -- From one version of a stream to another of it in as many events: nothing else has room between them.
    IF (events[size]).stream = only_stream AND (events[size]).version = expected + size THEN
        UPDATE stream AS s
        SET
            version = expected + size,
            position = b.base + (transaction_number << 20) + size,
            recorded_at = greatest(s.recorded_at, clock)
        FROM position_base AS b
        WHERE
            s.id = only_stream AND s.epoch = only_epoch AND s.version = expected
            AND s.position <= b.base + (transaction_number << 20)
        RETURNING s.position, s.recorded_at INTO last_position, recorded_at;
        IF FOUND THEN
            batch_position := last_position - size;
            INSERT INTO event (
                version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
                topic, message_id, message_type, outcome, cause, correlation, metadata, payload
            )
            SELECT
                e.version, append.batch_position + e.ordinal, append.recorded_at, e.epoch, e.id, e.occurred_at,
                nullif(e.delivery, 0), nullif(e.call, 0), e.stream, e.type, e.sender, e.recipient,
                e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata, e.payload
            FROM unnest(events) WITH ORDINALITY AS e (
                version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
                topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
            )
            WHERE e.stream = only_stream AND e.epoch = only_epoch AND e.version = expected + e.ordinal;
            GET DIAGNOSTICS stored = ROW_COUNT;
            IF stored < size THEN
                RAISE EXCEPTION 'events of stream % are not consecutive under one epoch', only_stream
                    USING ERRCODE = 'EL004', DETAIL = json_build_object('stream', only_stream)::text;
            END IF;
            stream := only_stream;
            epoch := only_epoch;
            accepted := true;
            first_ordinal := 1;
            last_version := expected + size;
            batch_recorded_at := clock;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;

    streams := ARRAY(SELECT e.stream FROM unnest(events) AS e GROUP BY e.stream);
    RETURN QUERY
    WITH asked AS (
        SELECT
            e.stream, min(e.epoch) AS epoch, max(e.epoch) AS other_epoch,
            min(e.version) - 1 AS expected, max(e.version) AS last_version, count(*) AS events,
            min(e.ordinal) AS first_ordinal, max(e.ordinal) AS last_ordinal,
            (SELECT b.base + (transaction_number << 20) FROM position_base AS b) AS batch_position
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
        GROUP BY e.stream
    ),
    moved AS (
        UPDATE stream AS s
        SET
            version = a.last_version,
            position = a.batch_position + a.last_ordinal,
            recorded_at = greatest(s.recorded_at, clock)
        FROM asked AS a
        WHERE
            s.id = ANY(streams) AND s.id = a.stream
            AND s.epoch = a.epoch AND s.version = a.expected AND s.position <= a.batch_position
            AND a.last_version = a.expected + a.events AND a.other_epoch = a.epoch
        RETURNING s.id, s.epoch, a.first_ordinal, s.version, s.position, s.recorded_at, a.batch_position
    ),
    inserted AS (
        INSERT INTO event (
            version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload
        )
        SELECT
            e.version, m.batch_position + e.ordinal, m.recorded_at, e.epoch, e.id, e.occurred_at,
            nullif(e.delivery, 0), nullif(e.call, 0), e.stream, e.type, e.sender, e.recipient,
            e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata, e.payload
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
        INNER JOIN moved AS m ON m.id = e.stream
    )
    SELECT
        m.id, m.epoch, true, NULL::bigint, NULL::bigint, m.first_ordinal, m.version, m.position, m.recorded_at,
        m.batch_position, clock
    FROM moved AS m;
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored = cardinality(streams) THEN
        RETURN;
    END IF;

    -- The rest was refused. A statement of its own sees what the UPDATE may have waited for; our own streams have moved.
    FOR said IN
        SELECT
            e.stream, min(e.epoch) AS epoch, max(e.epoch) AS other_epoch,
            min(e.version) - 1 AS expected, max(e.version) AS last_version, count(*) AS events,
            min(e.ordinal) AS first_ordinal,
            coalesce(max(s.epoch), 0) AS found_epoch, coalesce(max(s.version), 0) AS found_version,
            max(s.position) AS highest, max(b.base) + (transaction_number << 20) AS batch_position
        FROM unnest(events) WITH ORDINALITY AS e (
            version, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
            topic, message_id, message_type, outcome, cause, correlation, metadata, payload, ordinal
        )
        CROSS JOIN position_base AS b
        LEFT JOIN stream AS s ON s.id = e.stream AND s.id = ANY(streams)
        GROUP BY e.stream
    LOOP
        CONTINUE WHEN said.epoch = said.found_epoch AND said.last_version = said.found_version
            AND said.highest > said.batch_position AND (said.highest >> 20) = (said.batch_position >> 20);
        IF said.other_epoch <> said.epoch OR said.last_version <> said.expected + said.events THEN
            RAISE EXCEPTION 'events of stream % are not consecutive under one epoch', said.stream
                USING ERRCODE = 'EL004', DETAIL = json_build_object('stream', said.stream)::text;
        END IF;
        IF said.epoch = said.found_epoch AND said.expected = said.found_version THEN
            RAISE EXCEPTION 'position % would not be above %', said.batch_position, said.highest
                USING ERRCODE = 'EL003',
                DETAIL = json_build_object('position', said.batch_position, 'highest', said.highest)::text,
                HINT = 'This database was restored from another cluster: call raise_position_base().';
        END IF;
        RETURN QUERY SELECT
            said.stream, said.epoch, false, said.found_epoch, said.found_version, said.first_ordinal,
            NULL::bigint, NULL::bigint, NULL::timestamptz, said.batch_position, clock;
    END LOOP;
END
$$;
