-- What an event led to, directly and through others, in global order: at most `limit` events, nearest ones first where
-- there are more. The event itself is not among them. depth: at most this many causes in between. Index: event_cause,
-- event_id.
WITH RECURSIVE led (id, step) AS (
    SELECT e.id, 1
    FROM event AS e
    WHERE e.cause = %(event)s
    UNION
    SELECT e.id, l.step + 1
    FROM led AS l
    INNER JOIN event AS e ON e.cause = l.id
    WHERE l.step < %(depth)s
),
nearest AS (
    SELECT l.id, min(l.step) AS step FROM (SELECT l.id, l.step FROM led AS l LIMIT %(limit)s) AS l GROUP BY l.id
)
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM nearest AS n
INNER JOIN event_full AS e ON e.id = n.id
ORDER BY e.position
