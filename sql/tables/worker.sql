-- One row per process that has opened the log for writing (G6).
-- lock_key: second key of the session advisory lock (hashtext(schema), lock_key) that the process holds while it lives.
-- Times are the database's clock. stopped_at: closed in good order. settled_at: what it left behind, if anything, was
-- delivered and has ended since, so that nobody need look for it again.
CREATE TABLE worker (
    id uuid PRIMARY KEY,
    lock_key integer GENERATED ALWAYS AS IDENTITY UNIQUE,
    host text NOT NULL,
    process bigint NOT NULL,
    identity text NOT NULL,
    lease interval NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz,
    settled_at timestamptz
);
