-- One originator's events, backwards: gt < originator version <= lte, at most `limit` (NULL: all). An application may number
-- its events from another version than 1; then each says which it was, and the distance is the same for all of a stream.
-- Returns originator version, type, message_type, payload. Index: event_pkey.
WITH origin AS (
    SELECT coalesce((o.metadata ->> 'originator_version')::bigint - o.version, 0) AS distance
    FROM event AS o
    WHERE o.stream = %(stream)s
    ORDER BY o.version
    LIMIT 1
)
SELECT
    e.version + o.distance, e.type, e.message_type, e.payload
FROM origin AS o
INNER JOIN event AS e
    ON e.stream = %(stream)s AND e.version > %(gt)s::bigint - o.distance AND e.version <= %(lte)s::bigint - o.distance
ORDER BY e.version DESC
LIMIT %(limit)s::bigint
