-- Results from outside that agents depended on (models, tools, requests to the runtime), oldest first: at most `limit`
-- past the cursor `after` (a position). stream, kind (what was asked), since (inclusive) and until (exclusive) may be
-- NULL; from_position, to_position: what they mean for positions. after_version < version <= until_version: the bounds
-- as versions where a stream is given (`version_bounds`). Indexes: event_pkey when a stream is given, else
-- event_position, event_recorded_at.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.type = 'EffectRecorded' AND e.position > %(after)s
    AND e.position >= %(from_position)s AND e.position <= %(to_position)s
    AND (
        %(stream)s::text IS NULL
        OR (e.stream = %(stream)s AND e.version > %(after_version)s AND e.version <= %(until_version)s)
    )
    AND (%(kind)s::text IS NULL OR e.metadata ->> 'kind' = %(kind)s)
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.recorded_at < %(until)s)
ORDER BY e.position
LIMIT %(limit)s
