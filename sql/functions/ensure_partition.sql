-- Makes the partition of a table for the month (UTC) that begins at `starts`; returns whether it was missing.
-- A month of which the default partition already holds rows stays there: moving what is recorded is not ours to do.
--
-- parent: `event` or `large_payload`. key: the column that it is partitioned by.
-- Locks: the advisory lock of schema changes; ATTACH takes SHARE UPDATE EXCLUSIVE on the parent (appends and reads go on)
-- and ACCESS EXCLUSIVE on the (as a rule empty) default partition.
CREATE FUNCTION ensure_partition(parent text, key text, starts timestamptz)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET timezone = 'UTC'
AS $$
DECLARE
    partition CONSTANT text := parent || '_' || to_char(starts, 'YYYY_MM');
    ends CONSTANT timestamptz := starts + interval '1 month';
    taken boolean;
BEGIN
    IF to_regclass(format('%I.%I', current_schema(), partition)) IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('autogen-eventlog prepare'), hashtext(current_schema()));
    -- Not to_regclass again: it may answer from a cache that is older than the lock we have waited for.
    IF EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relname = partition AND c.relnamespace = quote_ident(current_schema())::regnamespace
    ) THEN
        RETURN false;
    END IF;
    EXECUTE format('SELECT EXISTS (SELECT FROM %I AS d WHERE d.%I >= $1 AND d.%2$I < $2)', parent || '_default', key)
    INTO taken USING starts, ends;
    IF taken THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING STORAGE INCLUDING COMPRESSION)', partition, parent);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, partition, starts, ends);
    -- Row triggers come with ATTACH, statement triggers do not.
    EXECUTE format(
        'CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
        partition
    );
    RETURN true;
END
$$;
