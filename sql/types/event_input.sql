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
