-- A page of one conversation in global order, past the position `after`: at most `limit` events. Index:
-- event_correlation.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE e.correlation = %(correlation)s AND e.position > %(after)s
ORDER BY e.position
LIMIT %(limit)s
