-- Everyone who has opened the log for writing in the last 30 days, oldest first.
SELECT
    w.id, w.host, w.process, w.identity, w.started_at, w.heartbeat_at, w.stopped_at, worker_is_alive(w.id)
FROM worker AS w
ORDER BY w.started_at, w.id
