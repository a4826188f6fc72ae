-- next_transaction: every transaction that has begun writing has a lower number. horizon: see position_horizon.
-- target: the horizon that will hold when all transactions below `wanted` (NULL: next_transaction) have ended.
-- settled: whether they have.
SELECT
    pg_snapshot_xmax(s.taken)::text::bigint AS next_transaction,
    pg_snapshot_xmin(s.taken)::text::bigint >= %(wanted)s::bigint AS settled,
    b.base + (coalesce(%(wanted)s::bigint, pg_snapshot_xmax(s.taken)::text::bigint) << 20) AS target
FROM (SELECT pg_current_snapshot() AS taken) AS s
CROSS JOIN position_base AS b
