-- Makes sure that the next position is above every position in the log; returns the base.
-- Nothing to do unless the log came from another cluster whose transaction numbers were higher (a restored dump).
-- Locks: none when nothing is to be done; else `stream` IN EXCLUSIVE MODE, which waits for every running append.
-- Index: event_position. SECURITY DEFINER: writers need no right to lock or to update.
CREATE FUNCTION raise_position_base()
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    current_base bigint;
    behind bigint;
BEGIN
    FOR attempt IN 1 .. 2 LOOP
        -- One snapshot for both sides: every visible event has a transaction number below its xmax.
        SELECT
            b.base,
            coalesce((SELECT max(e.position) FROM event AS e), 0)
            - (b.base + (pg_snapshot_xmax(pg_current_snapshot())::text::bigint << 20))
        INTO current_base, behind
        FROM position_base AS b;
        IF behind < 0 THEN
            RETURN current_base;
        END IF;
        IF attempt = 1 THEN
            LOCK TABLE stream IN EXCLUSIVE MODE;
        END IF;
    END LOOP;
    UPDATE position_base AS b
    SET base = b.base + (((behind >> 20) + 1) << 20)
    RETURNING b.base INTO current_base;
    RETURN current_base;
END
$$;
