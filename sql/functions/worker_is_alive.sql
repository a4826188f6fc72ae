-- Is the worker's process there (its session holds its advisory lock), and was it heard of within its lease?
-- Looks into pg_locks and takes nothing: a lock taken to look could keep its owner from taking it back.
-- Index: worker_pkey. An unknown worker is not alive.
CREATE FUNCTION worker_is_alive(worker_id uuid)
RETURNS boolean
LANGUAGE sql
STABLE
SET search_path FROM CURRENT
AS $$
    SELECT coalesce(bool_or(
        w.stopped_at IS NULL
        AND w.heartbeat_at > clock_timestamp() - w.lease
        AND EXISTS (
            SELECT FROM pg_locks AS l
            WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
            AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
            AND l.classid = hashtext(current_schema())::oid AND l.objid = w.lock_key::oid
        )
    ), false)
    FROM worker AS w
    WHERE w.id = worker_id
$$;
