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
