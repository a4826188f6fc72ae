-- Takes the next epoch of a stream for a worker (G6); makes the stream's row when it is new.
-- Returns epoch (now the worker's), version (of the last event), created.
-- Refused with EL001 (detail: owner, host, process, epoch, heartbeat_at) while another worker that is alive owns it,
-- unless takeover. Claiming one's own stream again takes the next epoch too: the epoch before becomes stale.
-- Locks: the stream's row. An append that runs holds it, so the version returned is final for all earlier epochs.
-- Index: stream_pkey, worker_pkey.
CREATE FUNCTION claim(stream_id text, worker_id uuid, takeover boolean)
RETURNS TABLE (epoch bigint, version bigint, created boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    head record;
BEGIN
    INSERT INTO stream (id, epoch, owner) VALUES (stream_id, 1, worker_id) ON CONFLICT (id) DO NOTHING;
    IF FOUND THEN
        RETURN QUERY SELECT 1::bigint, 0::bigint, true;
        RETURN;
    END IF;

    SELECT s.epoch, s.owner INTO head FROM stream AS s WHERE s.id = stream_id FOR NO KEY UPDATE;
    IF head.owner <> worker_id AND NOT takeover AND worker_is_alive(head.owner) THEN
        RAISE EXCEPTION 'stream % is owned by worker %', stream_id, head.owner
            USING ERRCODE = 'EL001',
            DETAIL = (
                SELECT json_build_object(
                    'owner', w.id, 'host', w.host, 'process', w.process,
                    'epoch', head.epoch,
                    'heartbeat_at', to_char(w.heartbeat_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
                )::text
                FROM worker AS w
                WHERE w.id = head.owner
            );
    END IF;

    RETURN QUERY
    UPDATE stream AS s
    SET epoch = s.epoch + 1, owner = worker_id
    WHERE s.id = stream_id
    RETURNING s.epoch, s.version, false;
END
$$;
