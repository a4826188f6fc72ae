-- Messages to one agent that an intervention handler dropped: at most `limit` past the cursor `after` (a position), in
-- the direction of newest_first. Filters and columns as in audit_messages_newest. Reads all that were dropped for the
-- agent: they are few. Index: event_dropped.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.delivery, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.payload, e.cause, e.correlation, e.metadata,
    NULL, NULL::timestamptz, NULL, NULL::bytea, NULL::json, false, NULL
FROM event_full AS e
WHERE
    e.type = 'MessageDropped' AND e.recipient = %(stream)s
    AND CASE WHEN %(newest_first)s THEN e.position < %(after)s ELSE e.position > %(after)s END
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.recorded_at < %(until)s)
    AND (%(message_type)s::text IS NULL OR e.message_type = %(message_type)s)
    AND (
        %(class_name)s::text IS NULL
        OR right(split_part(e.message_type, '[', 1), length(%(class_name)s) + 1)
            IN (':' || %(class_name)s, '.' || %(class_name)s)
    )
    AND (%(sender)s::text IS NULL OR e.sender = %(sender)s)
    AND (%(topic)s::text IS NULL OR e.topic = %(topic)s)
    AND (%(message_id)s::text IS NULL OR e.message_id = %(message_id)s)
    AND (%(correlation)s::uuid IS NULL OR e.correlation = %(correlation)s)
    AND (%(cause)s::uuid IS NULL OR e.cause = %(cause)s)
ORDER BY CASE WHEN %(newest_first)s THEN -e.position ELSE e.position END
LIMIT %(limit)s
