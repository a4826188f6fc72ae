-- The log as a whole, from the streams' heads: agents, events (without those that retention has removed), first and last
-- time, last position, live workers, bytes on disk of the log's partitions. Reads `stream` once. Index: event_recorded_at.
SELECT
    count(*) FILTER (WHERE s.version > 0 AND left(s.id, 1) <> '$'),
    coalesce(sum(s.version), 0)::bigint - (SELECT coalesce(sum(d.events), 0)::bigint FROM dropped_partition AS d),
    (SELECT min(e.recorded_at) FROM event AS e),
    max(s.recorded_at),
    coalesce(max(s.position), 0),
    (SELECT count(*) FROM worker AS w WHERE worker_is_alive(w.id)),
    (
        SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint
        FROM pg_inherits AS i
        WHERE i.inhparent IN ('event'::regclass, 'large_payload'::regclass)
    )
FROM stream AS s
