-- The largest settled position of an event of the given topics (NULL: of any); no row if there is none.
-- Reads backwards from the horizon until it finds one. Index: event_position.
SELECT
    e.position
FROM event AS e
WHERE
    e.position < position_horizon()
    AND (
        %(topics)s::text[] IS NULL
        OR CASE WHEN starts_with(e.stream, '$application/') THEN e.message_type ELSE e.type END = ANY(%(topics)s)
    )
ORDER BY e.position DESC
LIMIT 1
