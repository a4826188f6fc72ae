-- Whether every transaction below a number has ended, and the position below which nothing more appears then.
SELECT
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= %(transaction)s::bigint,
    b.base + (%(transaction)s::bigint << 20)
FROM position_base AS b
