-- A page in global order, after a position and below the horizon of this very snapshot, so that no late commit can
-- appear behind the reader. until: a position not to be passed, exclusive. Index: event_position.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE e.position > %(after)s AND e.position < least(position_horizon(), %(until)s::bigint)
ORDER BY e.position
LIMIT %(limit)s
