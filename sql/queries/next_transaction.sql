-- A number above that of every transaction that has begun writing, by taking one. (pg_snapshot_xmax is no such bound: it
-- is one past the last that has *ended*, and may be the number of one that runs.)
SELECT pg_current_xact_id()::text::bigint + 1
