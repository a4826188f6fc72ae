-- Makes the partitions of this month and the next (UTC); returns how many were missing.
-- A month of which the default partition already holds events stays there: moving recorded events is not ours to do.
-- Locks: the advisory lock of schema changes; ATTACH takes SHARE UPDATE EXCLUSIVE on `event` (appends and reads go on)
-- and ACCESS EXCLUSIVE on the (as a rule empty) default partition.
-- SECURITY DEFINER: a writer that may not create tables still gets next month's partition.
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
    partition text;
    made integer := 0;
BEGIN
    FOR ahead IN 0 .. 1 LOOP
        starts := month + make_interval(months => ahead);
        partition := 'event_' || to_char(starts, 'YYYY_MM');
        CONTINUE WHEN to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL;
        PERFORM pg_advisory_xact_lock(hashtext('autogen-eventlog prepare'), hashtext(current_schema()));
        -- Not to_regclass again: it may answer from a cache that is older than the lock we have waited for.
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_class AS c
            WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace
        );
        CONTINUE WHEN EXISTS (
            SELECT FROM event_default AS d
            WHERE d.recorded_at >= starts AND d.recorded_at < starts + interval '1 month'
        );
        EXECUTE format('CREATE TABLE %I (LIKE event INCLUDING STORAGE INCLUDING COMPRESSION)', partition);
        EXECUTE format(
            'ALTER TABLE event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            partition, starts, starts + interval '1 month'
        );
        -- Row triggers come with ATTACH, statement triggers do not.
        EXECUTE format(
            'CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
            partition
        );
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;
