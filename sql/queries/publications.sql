-- Publications recorded from `since` on, oldest first, at most `limit` past the position `after`. Columns as an event's.
-- Imported ones are left out: they went to their recipients in the log that they come from.
-- Indexes: event_recorded_at.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.recorded_at >= %(since)s AND e.type IN ('MessagePublished', 'MessageSubmitted') AND e.topic IS NOT NULL
    AND e.position > %(after)s AND e.metadata ->> 'imported_from' IS NULL
ORDER BY e.position
LIMIT %(limit)s
