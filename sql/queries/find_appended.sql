-- Which appends are stored, after an acknowledgement was lost. One element an append in each array: stream, version and
-- id of its last event. Returns n (from 1), position, recorded_at of those that are. Index: event_id or event_pkey.
SELECT
    w.n, e.position, e.recorded_at
FROM unnest(%(streams)s::text[], %(versions)s::bigint[], %(ids)s::uuid[]) WITH ORDINALITY AS w (stream, version, id, n)
INNER JOIN event AS e ON e.stream = w.stream AND e.version = w.version AND e.id = w.id
