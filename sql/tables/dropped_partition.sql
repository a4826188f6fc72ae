-- What retention has removed from the log, for good: one row a partition of `event` (G9: removal is itself recorded).
-- starts, ends: of what was recorded in it (ends excluded). archive: where it was written before, in words of whoever did.
CREATE TABLE dropped_partition (
    name text PRIMARY KEY,
    starts timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    events bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL,
    archive text,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_by text NOT NULL DEFAULT current_user
);
