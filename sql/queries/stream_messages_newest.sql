-- Audit of one stream, newest first: a page of at most `limit` events with after_version < version <= until_version.
-- Bounds in time and position are made bounds in version first (`version_at`). The other filters as in messages_newest.
-- Index: event_pkey, in order.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.stream = %(stream)s AND e.version > %(after_version)s AND e.version <= %(until_version)s
    AND (%(event_types)s::text[] IS NULL OR e.type = ANY(%(event_types)s))
    AND (%(message_type)s::text IS NULL OR e.message_type = %(message_type)s)
    AND (%(sender)s::text IS NULL OR e.sender = %(sender)s)
    AND (%(recipient)s::text IS NULL OR e.recipient = %(recipient)s)
    AND (%(topic)s::text IS NULL OR e.topic = %(topic)s)
    AND (%(outcome)s::text IS NULL OR e.outcome = %(outcome)s)
    AND (%(correlation)s::uuid IS NULL OR e.correlation = %(correlation)s)
    AND (%(cause)s::uuid IS NULL OR e.cause = %(cause)s)
    AND (%(delivery)s::bigint IS NULL OR e.delivery = %(delivery)s)
ORDER BY e.version DESC
LIMIT %(limit)s
