-- A page of one stream, forwards: after_version < version <= until_version, at most `limit` events. Index: event_pkey.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE e.stream = %(stream)s AND e.version > %(after_version)s AND e.version <= %(until_version)s
ORDER BY e.version ASC
LIMIT %(limit)s
