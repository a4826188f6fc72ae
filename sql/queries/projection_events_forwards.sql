-- One originator's events, forwards: gt < originator version <= lte, at most `limit` (NULL: all). An application may number
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
    e.version + (SELECT o.distance FROM origin AS o), e.type, e.message_type, e.payload
FROM event_full AS e
WHERE
    e.stream = %(stream)s
    AND e.version > %(gt)s::bigint - (SELECT o.distance FROM origin AS o)
    AND e.version <= %(lte)s::bigint - (SELECT o.distance FROM origin AS o)
ORDER BY e.version ASC
LIMIT %(limit)s::bigint
