-- The requests to the outside with these ids, as they were recorded before they were made. Index: event_id.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE e.id = ANY(%(ids)s::uuid[]) AND e.type = 'EffectRequested'
