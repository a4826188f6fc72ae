-- The schema as first released: the object files of that day, in the order types, tables, functions, triggers,
-- indexes, views. Append-only: later changes are later migrations.

-- One proposed event as `append` takes it: the columns of `event` that the producer knows.
-- The writer packs an array of these in Postgres' binary format itself, so the order of the fields is a contract
-- between this file and `postgres/packing.py` (a test compares them).
-- delivery and call are 0 when absent: numbers start at 1, and a fixed width costs the producer less than a NULL.
CREATE TYPE event_input AS (
    version bigint,
    epoch bigint,
    id uuid,
    occurred_at timestamptz,
    delivery bigint,
    call bigint,
    stream text COLLATE "C",
    type text,
    sender text,
    recipient text,
    topic text,
    message_id text,
    message_type text,
    outcome text,
    cause uuid,
    correlation uuid,
    metadata json,
    payload bytea
);

-- The log. Rows are inserted by `append` only and never changed (triggers refuse_*); retention drops whole partitions.
-- Partitioned by month of recorded_at (`ensure_partitions`); event_default takes what has no month of its own.
-- payload: the exact encoded bytes, the source of truth; `event_json` shows it as jsonb.
-- metadata: json, not jsonb: an error text may hold U+0000, and what was written must be read back as it was.
-- recorded_at is part of the key because Postgres wants the partition column in it; (stream, version) alone is unique
-- by the check on `stream`.
CREATE TABLE event (
    version bigint NOT NULL,
    position bigint NOT NULL,
    recorded_at timestamptz NOT NULL,
    epoch bigint NOT NULL,
    id uuid NOT NULL,
    occurred_at timestamptz NOT NULL,
    delivery bigint,
    call bigint,
    stream text COLLATE "C" NOT NULL,
    type text NOT NULL,
    sender text,
    recipient text,
    topic text,
    message_id text,
    message_type text,
    outcome text,
    cause uuid,
    correlation uuid,
    metadata json NOT NULL,
    payload bytea,
    PRIMARY KEY (stream, version, recorded_at)
) PARTITION BY RANGE (recorded_at);

CREATE TABLE event_default PARTITION OF event DEFAULT;

-- Which numbered migrations this schema has. A number above what the code knows: the schema is newer, refuse.
CREATE TABLE migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- One row: what is added to a transaction's number to give positions (see `append`).
-- Raised only by `raise_position_base`, after a dump was restored into a cluster with lower transaction numbers.
CREATE TABLE position_base (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    base bigint NOT NULL
);

INSERT INTO position_base (base) VALUES (0);

-- An agent's state at a version: a cache, never the only copy. Rewritten and deleted freely.
-- kind: how it was captured. code_hash: of the class that wrote it. status: what is known of it ('taken', 'proven', ...).
CREATE TABLE snapshot (
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    kind text NOT NULL,
    code_hash text NOT NULL,
    position bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status text NOT NULL,
    metadata json NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (stream, version, kind, code_hash)
);

-- Heads: one row per stream, made by `claim`, moved by `append`. It is what makes (stream, version) unique and gapless
-- although `event` is partitioned by time: every append locks and checks the row in its own transaction.
-- id: 'type/key'. COLLATE "C": the streams of a type are the range from 'type/' to 'type0', whatever the locale.
-- epoch: fencing token. owner: worker that claimed it last; NULL: released.
-- position, recorded_at: of the last event. fillfactor: appends update in place (HOT), no index entry is written.
CREATE TABLE stream (
    id text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    owner uuid,
    position bigint NOT NULL DEFAULT 0,
    recorded_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- Which agent types of event-sourced workers are subscribed to which topics: whom a publication is for, also while no
-- worker has the type. prefix: topic_type is the beginning of the topics' types.
-- created_at: what was published before is for others. stale_at: a worker has registered the type since, and not (yet)
-- subscribed it again. Times are the database's clock.
CREATE TABLE subscription (
    agent_type text COLLATE "C" NOT NULL,
    topic_type text COLLATE "C" NOT NULL,
    prefix boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stale_at timestamptz,
    PRIMARY KEY (agent_type, topic_type, prefix)
);

-- One row per process that has opened the log for writing (G6).
-- lock_key: second key of the session advisory lock (hashtext(schema), lock_key) that the process holds while it lives.
-- Times are the database's clock. stopped_at: closed in good order.
CREATE TABLE worker (
    id uuid PRIMARY KEY,
    lock_key integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    host text NOT NULL,
    process bigint NOT NULL,
    identity text NOT NULL,
    lease interval NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz
);

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

-- Takes the next epoch of a stream for a worker (G6); makes the stream's row when it is new.
-- Returns epoch (now the worker's), version (of the last event), created.
-- Refused with EL001 (detail: owner, host, process, epoch, heartbeat_at) while another worker that is alive owns it,
-- unless takeover. Claiming one's own stream again takes the next epoch too: the epoch before becomes stale.
-- Locks: the stream's row. An append that runs holds it, so the version returned is final for all earlier epochs.
-- Index: stream_pkey, worker_pkey.
CREATE FUNCTION claim(stream_id text, worker_id uuid, takeover boolean)
RETURNS TABLE (epoch bigint, version bigint, created boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    head record;
BEGIN
    INSERT INTO stream (id, epoch, owner) VALUES (stream_id, 1, worker_id) ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT 1::bigint, 0::bigint, true;
        RETURN;
    END IF;

    SELECT s.epoch, s.owner INTO head FROM stream AS s WHERE s.id = stream_id FOR NO KEY UPDATE;
    IF head.owner <> worker_id AND NOT takeover AND worker_is_alive(head.owner) THEN
        RAISE EXCEPTION 'stream % is owned by worker %', stream_id, head.owner
            USING ERRCODE = 'EL001',
            DETAIL = (
                SELECT json_build_object(
                    'owner', w.id, 'host', w.host, 'process', w.process,
                    'epoch', head.epoch,
                    'heartbeat_at', to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
                )::text
                FROM worker AS w
                WHERE w.id = head.owner
            );
    END IF;

    RETURN QUERY
    UPDATE stream AS s
    SET epoch = s.epoch + 1, owner = worker_id
    WHERE s.id = stream_id
    RETURNING s.epoch, s.version, false;
END
$$;

-- Makes the partitions of this month and the next (UTC); returns how many were missing.
-- A month of which the default partition already holds events stays there: moving recorded events is not ours to do.
-- Locks: the advisory lock of schema changes; ATTACH takes SHARE UPDATE EXCLUSIVE on `event` (appends and reads go on)
-- and ACCESS EXCLUSIVE on the (as a rule empty) default partition.
-- SECURITY DEFINER: a writer that may not create tables still gets next month's partition.
CREATE FUNCTION ensure_partitions()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
SET timezone = 'UTC'
AS $$
DECLARE
    month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
    starts timestamptz;
    partition text;
    made integer := 0;
BEGIN
    FOR ahead IN 0 .. 1 LOOP
        starts := month + make_interval(months => ahead);
        partition := 'event_' || to_char(starts, 'YYYY_MM');
        CONTINUE WHEN to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(hashtext('autogen-eventlog prepare'), hashtext(current_schema()));
        -- Not to_regclass again: it may answer from a cache that is older than the lock we have waited for.
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class AS c
            WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace
        );
        CONTINUE WHEN EXISTS (
            SELECT FROM event_default AS d
            WHERE d.recorded_at >= starts AND d.recorded_at < starts + interval '1 month'
        );
        EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING STORAGE INCLUDING COMPRESSION)', partition);
        EXECUTE format(
            'ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            partition, starts, starts + interval '1 month'
        );
        -- Row triggers come with ATTACH, statement triggers do not.
        EXECUTE format(
            'CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
            partition
        );
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- The payload as jsonb, or NULL where jsonb can't hold it (U+0000, lone surrogates) or it is no JSON at all.
-- For people and ad-hoc queries; the bytes are the truth (jsonb folds numbers, key order and duplicate keys).
CREATE FUNCTION payload_as_jsonb(payload bytea)
RETURNS jsonb
LANGUAGE plpgsql
IMMUTABLE
STRICT
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
END
$$;

-- The position below which nothing more can appear, as of the calling statement's snapshot: every transaction with a
-- lower number has ended, and its events are visible to that same snapshot.
-- A long transaction that writes anything in the same cluster holds the horizon back until it ends.
CREATE FUNCTION position_horizon()
RETURNS bigint
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
    SELECT b.base + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20)
    FROM position_base AS b
$$;

-- Makes sure that the next position is above every position in the log; returns the base.
-- Nothing to do unless the log came from another cluster whose transaction numbers were higher (a restored dump).
-- Locks: none when nothing is to be done; else `stream` IN EXCLUSIVE MODE, which waits for every running append.
-- Index: event_position. SECURITY DEFINER: writers need no right to lock or to update.
CREATE FUNCTION raise_position_base()
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    current_base bigint;
    behind bigint;
BEGIN
    FOR attempt IN 1 .. 2 LOOP
        -- One snapshot for both sides: every visible event has a transaction number below its xmax.
        SELECT
            b.base,
            coalesce((SELECT max(e.position) FROM event AS e), 0)
            - (b.base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20))
        INTO current_base, behind
        FROM position_base AS b;
        IF behind < 0 THEN
            RETURN current_base;
        END IF;
        IF attempt = 1 THEN
            LOCK TABLE stream IN EXCLUSIVE MODE;
        END IF;
    END LOOP;
    UPDATE position_base AS b
    SET base = b.base + (((behind >> 20) + 1) << 20)
    RETURNING b.base INTO current_base;
    RETURN current_base;
END
$$;

-- Trigger function: recorded events are never updated, deleted or truncated (G9). Error EL002.
CREATE FUNCTION refuse_change()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RAISE EXCEPTION '% on % refused: recorded events are never changed', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'EL002',
        DETAIL = json_build_object('operation', TG_OP, 'table', TG_TABLE_NAME)::text,
        HINT = 'To go back in time, restore (it appends). To remove old events, drop partitions by retention.';
END
$$;

-- Writes or refreshes the worker's row and takes its advisory lock in this session; true: the lock is held.
-- Called at open and after every reconnect; false means that the session before still lingers: call again.
-- lease: how long after its last heartbeat the worker still counts as alive.
-- Locks: session advisory lock (hashtext(schema), lock_key). Also forgets workers stopped or silent for 30 days.
CREATE FUNCTION register_worker(worker_id uuid, host text, process bigint, identity text, lease interval)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    key integer;
BEGIN
    DELETE FROM worker AS w WHERE w.heartbeat_at < clock_timestamp() - interval '30 days';
    INSERT INTO worker AS w (id, host, process, identity, lease)
    VALUES (worker_id, register_worker.host, register_worker.process, register_worker.identity, register_worker.lease)
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp(), stopped_at = NULL
    RETURNING w.lock_key INTO key;
    RETURN pg_try_advisory_lock(hashtext(current_schema()), key);
END
$$;

-- The last version of a stream at or before a position and a time (each NULL: no bound); 0 if there is none.
-- Both grow with the version, so it is a binary search: about 20 probes for a million events, whatever their age.
-- Versions dropped by retention count as before any point. Index: event_pkey, stream_pkey.
CREATE FUNCTION version_at(stream_id text, at_position bigint, at_time timestamptz)
RETURNS bigint
LANGUAGE plpgsql
STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    low bigint := 0;
    high bigint := coalesce((SELECT s.version FROM stream AS s WHERE s.id = stream_id), 0);
    middle bigint;
    later boolean;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT e.position > at_position OR e.recorded_at > at_time INTO later
        FROM event AS e
        WHERE e.stream = stream_id AND e.version = middle;
        IF coalesce(later, false) THEN
            high := middle - 1;
        ELSE
            low := middle;
        END IF;
    END LOOP;
    IF low > 0 AND NOT EXISTS (SELECT FROM event AS e WHERE e.stream = stream_id AND e.version = low) THEN
        RETURN 0;
    END IF;
    RETURN low;
END
$$;

-- Is the worker's process there (its session holds its advisory lock), and was it heard of within its lease?
-- Looks into pg_locks and takes nothing: a lock taken to look could keep its owner from taking it back.
-- Index: worker_pkey. An unknown worker is not alive.
CREATE FUNCTION worker_is_alive(worker_id uuid)
RETURNS boolean
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
    SELECT coalesce(bool_or(
        w.stopped_at IS NULL
        AND w.heartbeat_at > clock_timestamp() - w.lease
        AND EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND l.classid = hashtext(current_schema())::oid AND l.objid = w.lock_key::oid
        )
    ), false)
    FROM worker AS w
    WHERE w.id = worker_id
$$;

-- TRUNCATE has statement triggers only, and those are not cloned: `ensure_partitions` makes one per partition.
CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON event_default
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Row trigger: Postgres clones it to every partition, present and future, so a partition refuses too.
CREATE TRIGGER refuse_update_delete
BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- The few events that say who runs an agent from then on.
CREATE INDEX event_activated ON event (stream, version) WHERE type = 'AgentActivated';

-- What an event led to: lineage forward.
CREATE INDEX event_cause ON event (cause) WHERE cause IS NOT NULL;

-- One conversation, across streams.
CREATE INDEX event_correlation ON event (correlation) WHERE correlation IS NOT NULL;

-- The messages to an agent that an intervention handler dropped.
CREATE INDEX event_dropped ON event (recipient, position) WHERE type = 'MessageDropped';

-- The handler runs that did not end well, by the delivery that began them: as a rule few.
CREATE INDEX event_failed ON event (cause) WHERE type = 'DeliveryCompleted' AND outcome IN ('raised', 'cancelled');

-- One event by its id: lineage backwards. Ids of a process ascend (see EventIds), so it grows at a few right edges only.
CREATE INDEX event_id ON event (id);

-- Global order: tail, audit pages. Grows at its right edge only.
CREATE INDEX event_position ON event (position);

-- A time range over all streams: audit by minute, position_at. Grows at its right edge only.
CREATE INDEX event_recorded_at ON event (recorded_at);

-- What instances that had lost their agent tried to record.
CREATE INDEX event_refused ON event (recipient, position) WHERE type = 'WritesRefused';

-- The few events by which a stream does not continue from the version before: read with every stream.
CREATE INDEX event_restored ON event (stream, version) WHERE type IN ('StreamRestored', 'StreamForked');

-- What a worker owns, to release it all at close. Not touched by appends.
CREATE INDEX stream_owner ON stream (owner) WHERE owner IS NOT NULL;

-- The log for people: like `event`, with the payload as jsonb where it can be (else NULL, see payload_as_jsonb).
CREATE VIEW event_json AS
SELECT
    e.stream, e.version, e.position, e.recorded_at, e.type, e.delivery, e.call, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.outcome, payload_as_jsonb(e.payload) AS payload, e.metadata,
    e.id, e.cause, e.correlation, e.epoch, e.occurred_at
FROM event AS e;
