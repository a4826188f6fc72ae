-- Requests to the outside (models, tools, …) of the whole log or of one stream whose result the log does not hold: under way,
-- given up, or asked by a process that died. Of a stream, items that came (metadata more) are not yet the result. Oldest first:
-- at most `limit` past the cursor `after` (a position). Requests of abandoned branches included. The other filters are those of
-- audit_recorded_effects. Indexes: event_pkey when a stream is given, else event_position, event_recorded_at; event_cause.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.type = 'EffectRequested' AND e.position > %(after)s
    AND e.position >= %(from_position)s AND e.position <= %(to_position)s
    AND (
        %(stream)s::text IS NULL
        OR (e.stream = %(stream)s AND e.version > %(after_version)s AND e.version <= %(until_version)s)
    )
    AND (%(kind)s::text IS NULL OR e.metadata ->> 'kind' = %(kind)s)
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.recorded_at < %(until)s)
    AND NOT EXISTS (
        SELECT FROM event AS r
        WHERE r.cause = e.id AND r.type = 'EffectRecorded' AND r.metadata ->> 'more' IS NULL
    )
ORDER BY e.position
LIMIT %(limit)s
