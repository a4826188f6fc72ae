-- The last version of a stream at or before a position and a time (each NULL: no bound); 0 if there is none.
-- Both grow with the version, so it is a binary search: about 20 probes for a million events, whatever their age.
-- Versions dropped by retention count as before any point. Index: event_pkey, stream_pkey.
CREATE FUNCTION version_at(stream_id text, at_position bigint, at_time timestamptz)
RETURNS bigint
LANGUAGE plpgsql
STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    low bigint := 0;
    high bigint := coalesce((SELECT s.version FROM stream AS s WHERE s.id = stream_id), 0);
    middle bigint;
    later boolean;
BEGIN
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT e.position > at_position OR e.recorded_at > at_time INTO later
        FROM event AS e
        WHERE e.stream = stream_id AND e.version = middle;
        IF coalesce(later, false) THEN
            high := middle - 1;
        ELSE
            low := middle;
        END IF;
    END LOOP;
    IF low > 0 AND NOT EXISTS (SELECT FROM event AS e WHERE e.stream = stream_id AND e.version = low) THEN
        RETURN 0;
    END IF;
    RETURN low;
END
$$;
