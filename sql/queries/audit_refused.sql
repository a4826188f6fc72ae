-- What instances that had lost their agent tried to record, of one agent or (NULL) of all, oldest first: at most `limit`
-- past the cursor `after` (a position). Index: event_refused.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.type = 'WritesRefused' AND e.position > %(after)s
    AND (%(agent)s::text IS NULL OR e.recipient = %(agent)s)
ORDER BY e.position
LIMIT %(limit)s
