-- A page of heads in order of id, past `after` and below `before` (exclusive both). Index: stream_pkey.
SELECT
    s.id, s.version, s.epoch, s.owner, s.position, s.recorded_at, s.created_at
FROM stream AS s
WHERE s.id > %(after)s AND (%(before)s::text IS NULL OR s.id < %(before)s)
ORDER BY s.id
LIMIT %(limit)s
