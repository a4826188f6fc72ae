-- Large payloads are kept once a month, and events refer to them. What was recorded before keeps its payloads in its rows.

-- Payloads of 8 KiB and more, each once a month however often it is recorded: a message that was published to a hundred
-- agents is a hundred deliveries and one row here. An event with such a payload holds a reference to it (`is_reference`);
-- `event_full` shows the log as if there were none.
-- hash: SHA-256 of payload. month: the beginning (UTC) of the month in which the events that refer to it were recorded, so
-- a month of events and what they refer to are removed together (retention) and no count of references is kept.
-- Rows are inserted by `append_large` only and never changed (triggers refuse_*). Partitioned as `event` is.
CREATE TABLE large_payload (
    hash bytea NOT NULL,
    month timestamptz NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (hash, month)
) PARTITION BY RANGE (month);

CREATE TABLE large_payload_default PARTITION OF large_payload DEFAULT;

-- Whether an event's payload is a reference to a row of `large_payload`: a zero byte and a SHA-256. No encoded message
-- begins with a zero byte, and the writer keeps whatever else does so in `large_payload`, so no payload is taken for one.
CREATE FUNCTION is_reference(payload bytea)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN octet_length(payload) = 33 AND substr(payload, 1, 1) = '\x00'::bytea;

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

-- Makes the partition of a table for the month (UTC) that begins at `starts`; returns whether it was missing.
-- A month of which the default partition already holds rows stays there: moving what is recorded is not ours to do.
--
-- parent: `event` or `large_payload`. key: the column that it is partitioned by.
-- Locks: the advisory lock of schema changes; ATTACH takes SHARE UPDATE EXCLUSIVE on the parent (appends and reads go on)
-- and ACCESS EXCLUSIVE on the (as a rule empty) default partition.
CREATE FUNCTION ensure_partition(parent text, key text, starts timestamptz)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET timezone = 'UTC'
AS $$
DECLARE
    partition CONSTANT text := parent || '_' || to_char(starts, 'YYYY_MM');
    ends CONSTANT timestamptz := starts + interval '1 month';
    taken boolean;
BEGIN
    IF to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('autogen-eventlog prepare'), hashtext(current_schema()));
    -- Not to_regclass again: it may answer from a cache that is older than the lock we have waited for.
    IF EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %I AS d WHERE d.%I >= $1 AND d.%2$I < $2)', parent || '_default', key)
    INTO taken USING starts, ends;
    IF taken THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING STORAGE INCLUDING COMPRESSION)', partition, parent);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition, starts, ends);
    -- Row triggers come with ATTACH, statement triggers do not.
    EXECUTE format(
        'CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
        partition
    );
    RETURN true;
END
$$;

-- Makes the partitions of this month and the next (UTC) that `event` and `large_payload` lack; returns how many were missing.
-- SECURITY DEFINER: a writer that may not create tables still gets next month's partitions.
CREATE OR REPLACE FUNCTION ensure_partitions()
RETURNS integer
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
SET timezone = 'UTC'
AS $$
DECLARE
    month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
    starts timestamptz;
    made integer := 0;
BEGIN
    FOR ahead IN 0 .. 1 LOOP
        starts := month + make_interval(months => ahead);
        made := made + ensure_partition('event', 'recorded_at', starts)::integer;
        made := made + ensure_partition('large_payload', 'month', starts)::integer;
    END LOOP;
    RETURN made;
END
$$;

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON large_payload
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_truncate
BEFORE TRUNCATE ON large_payload_default
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TRIGGER refuse_update_delete
BEFORE UPDATE OR DELETE ON large_payload
FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- The log with every payload in full: like `event`, with what references refer to in their place.
-- In the place of a payload that is gone, or is not what its hash says, stands the text `lost large_payload` between a zero
-- byte and the hash: who reads it finds it damaged, and not missing or another.
CREATE VIEW event_full AS
SELECT
    e.version, e.position, e.recorded_at, e.epoch, e.id, e.occurred_at, e.delivery, e.call, e.stream, e.type, e.sender,
    e.recipient, e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata,
    CASE
        WHEN is_reference(e.payload) THEN coalesce(
            (
                SELECT l.payload FROM large_payload AS l
                WHERE
                    l.hash = substr(e.payload, 2) AND l.month = date_trunc('month', e.recorded_at, 'UTC')
                    AND sha256(l.payload) = l.hash
            ),
            '\x00'::bytea || convert_to('lost large_payload ', 'UTF8') || substr(e.payload, 2)
        )
        ELSE e.payload
    END AS payload
FROM event AS e;

-- The log for people: like `event`, with the payload as jsonb where it can be (else NULL, see payload_as_jsonb).
CREATE OR REPLACE VIEW event_json AS
SELECT
    e.stream, e.version, e.position, e.recorded_at, e.type, e.delivery, e.call, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.outcome, payload_as_jsonb(e.payload) AS payload, e.metadata,
    e.id, e.cause, e.correlation, e.epoch, e.occurred_at
FROM event_full AS e;

-- Who may do something with the log may do it with what it consists of now.
DO $$
DECLARE
    granted record;
    addition text;
BEGIN
    FOR granted IN
        SELECT a.grantee, a.privilege_type, a.is_grantable
        FROM pg_class AS c
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.oid = 'event'::regclass AND a.grantee <> c.relowner
    LOOP
        FOREACH addition IN ARRAY ARRAY['large_payload', 'event_full', 'dropped_partition'] LOOP
            EXECUTE format(
                'GRANT %s ON %I TO %s%s',
                granted.privilege_type, addition,
                CASE WHEN granted.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END,
                CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
            );
        END LOOP;
    END LOOP;
END
$$;
