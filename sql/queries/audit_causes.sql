-- An event, what led to it, what led to that, up to the root: at most `limit` events, the root first. The ids seen end
-- the recursion, should causes ever form a circle. Index: event_id.
WITH RECURSIVE chain (id, cause, step, seen) AS (
    SELECT e.id, e.cause, 1, ARRAY[e.id]
    FROM event AS e
    WHERE e.id = %(event)s
    UNION ALL
    SELECT e.id, e.cause, c.step + 1, c.seen || e.id
    FROM chain AS c
    INNER JOIN event AS e ON e.id = c.cause
    WHERE c.step < %(limit)s AND NOT e.id = ANY(c.seen)
)
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM chain AS c
INNER JOIN event_full AS e ON e.id = c.id
ORDER BY c.step DESC
