-- Everyone who has opened the log for writing in the last 30 days, oldest first, with what they own: as in workers.sql, then
-- seconds since the last heartbeat (NULL: stopped in good order), agents by type, largest epoch (0: they own nothing).
-- first: before every agent's id, and behind the streams that are no agent's. Index: stream_owner.
SELECT
    w.id, w.host, w.process, w.identity, w.started_at, w.heartbeat_at, w.stopped_at, worker_is_alive(w.id),
    CASE WHEN w.stopped_at IS NULL THEN extract(EPOCH FROM clock_timestamp() - w.heartbeat_at)::double precision END,
    coalesce(o.agents, '{}'), coalesce(o.epoch, 0)
FROM worker AS w
LEFT JOIN (
    SELECT
        t.owner, jsonb_object_agg(t.type, t.agents) AS agents, max(t.epoch) AS epoch
    FROM (
        SELECT
            s.owner, split_part(s.id, '/', 1) AS type, count(*) AS agents, max(s.epoch) AS epoch
        FROM stream AS s
        WHERE s.owner IS NOT NULL AND s.id >= %(first)s
        GROUP BY s.owner, type
    ) AS t
    GROUP BY t.owner
) AS o ON o.owner = w.id
ORDER BY w.started_at, w.id
