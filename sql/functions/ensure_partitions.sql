-- Makes the partitions of this month and the next (UTC) that `event` and `large_payload` lack; returns how many were missing.
-- SECURITY DEFINER: a writer that may not create tables still gets next month's partitions.
CREATE FUNCTION ensure_partitions()
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
