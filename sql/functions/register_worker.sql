-- Writes or refreshes the worker's row and takes its advisory lock in this session; true: the lock is held.
-- Called at open and after every reconnect; false means that the session before still lingers: call again.
-- lease: how long after its last heartbeat the worker still counts as alive.
-- Locks: session advisory lock (hashtext(schema), lock_key). Also forgets workers stopped or silent for 30 days.
CREATE FUNCTION register_worker(worker_id uuid, host text, process bigint, identity text, lease interval)
RETURNS boolean
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    key integer;
BEGIN
    DELETE FROM worker AS w WHERE w.heartbeat_at < clock_timestamp() - interval '30 days';
    INSERT INTO worker AS w (id, host, process, identity, lease)
    VALUES (worker_id, register_worker.host, register_worker.process, register_worker.identity, register_worker.lease)
    ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp(), stopped_at = NULL, settled_at = NULL
    RETURNING w.lock_key INTO key;
    RETURN pg_try_advisory_lock(hashtext(current_schema()), key);
END
$$;
