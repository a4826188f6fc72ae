-- Retention: what was removed is written down for good.
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
