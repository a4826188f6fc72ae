-- The log. Rows are inserted by `append` only and never changed (triggers refuse_*); retention drops whole partitions.
-- Partitioned by month of recorded_at (`ensure_partitions`); event_default takes what has no month of its own.
-- payload: the exact encoded bytes, the source of truth, or a reference to them (`large_payload`); `event_full` shows them in
-- full, `event_json` as jsonb.
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
