-- Audit over all streams, newest first: a page of at most `limit` events past the cursor `after` (a position).
-- Every parameter but after and limit may be NULL: no such filter. first_stream / last_stream: the range of an agent type.
-- since (inclusive), until (exclusive): recorded_at. Run unprepared, so that each combination gets a plan of its own.
-- Indexes: event_position, event_recorded_at, event_correlation, event_cause.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.position < %(after)s
    AND (%(first_stream)s::text IS NULL OR (e.stream >= %(first_stream)s AND e.stream < %(last_stream)s))
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.recorded_at < %(until)s)
    AND (%(event_types)s::text[] IS NULL OR e.type = ANY(%(event_types)s))
    AND (%(message_type)s::text IS NULL OR e.message_type = %(message_type)s)
    AND (%(sender)s::text IS NULL OR e.sender = %(sender)s)
    AND (%(recipient)s::text IS NULL OR e.recipient = %(recipient)s)
    AND (%(topic)s::text IS NULL OR e.topic = %(topic)s)
    AND (%(outcome)s::text IS NULL OR e.outcome = %(outcome)s)
    AND (%(correlation)s::uuid IS NULL OR e.correlation = %(correlation)s)
    AND (%(cause)s::uuid IS NULL OR e.cause = %(cause)s)
    AND (%(delivery)s::bigint IS NULL OR e.delivery = %(delivery)s)
ORDER BY e.position DESC
LIMIT %(limit)s
