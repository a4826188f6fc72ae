-- Messages that were accepted and have not reached everybody they were for, of the present, oldest first: at most
-- `limit` past the cursor `after` (a position). Fewer deliveries name them as cause than there were subscribers
-- (metadata fan_out; one, where it is not said), no drop does, and no answer came to the call (an answer without a
-- delivery: the recipient could not be had, and the sender was told). sender: the agent that sent or published, or
-- the sender that was given from outside. since, until, from_position, to_position: as in audit_messages_newest. Every
-- parameter but after and limit may be NULL: no such filter. Indexes: event_position, event_cause, event_correlation,
-- event_restored.
WITH RECURSIVE branch (stream, version, to_version) AS (
    (
        SELECT DISTINCT ON (r.stream)
            r.stream, r.version,
            CASE WHEN coalesce(r.metadata ->> 'from_stream', r.stream) = r.stream
                THEN coalesce(r.metadata ->> 'from_version', r.metadata ->> 'to_version')::bigint ELSE 0 END
        FROM event AS r
        WHERE r.type IN ('StreamRestored', 'StreamForked')
        ORDER BY r.stream, r.version DESC
    )
    UNION ALL
    SELECT b.stream, earlier.version, earlier.to_version
    FROM branch AS b
    CROSS JOIN LATERAL (
        SELECT
            r.version,
            CASE WHEN coalesce(r.metadata ->> 'from_stream', r.stream) = r.stream
                THEN coalesce(r.metadata ->> 'from_version', r.metadata ->> 'to_version')::bigint ELSE 0
            END AS to_version
        FROM event AS r
        WHERE r.type IN ('StreamRestored', 'StreamForked') AND r.stream = b.stream AND r.version <= b.to_version
        ORDER BY r.version DESC
        LIMIT 1
    ) AS earlier
)
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event_full AS e
WHERE
    e.type IN ('MessageSent', 'MessagePublished', 'MessageSubmitted') AND e.position > %(after)s
    AND e.position >= %(from_position)s AND e.position <= %(to_position)s
    AND (%(recipient)s::text IS NULL OR e.recipient = %(recipient)s)
    AND (%(sender)s::text IS NULL OR coalesce(e.sender, e.stream) = %(sender)s)
    AND (%(topic)s::text IS NULL OR e.topic = %(topic)s)
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(until)s::timestamptz IS NULL OR e.recorded_at < %(until)s)
    AND (%(correlation)s::uuid IS NULL OR e.correlation = %(correlation)s)
    AND NOT EXISTS (
        SELECT FROM branch AS b WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
    )
    AND NOT EXISTS (
        SELECT FROM event AS led WHERE led.cause = e.id AND led.type IN ('MessageDropped', 'ReplyReceived')
    )
    -- An imported message reached those it was for in the log that it comes from, or is said to wait still.
    AND (e.metadata ->> 'imported_from' IS NULL OR e.metadata -> 'imported_from' ->> 'waits' = 'true')
    AND (SELECT count(*) FROM event AS led WHERE led.cause = e.id AND led.type = 'MessageDelivered')
        < greatest(1, coalesce((e.metadata ->> 'fan_out')::bigint, 1))
ORDER BY e.position
LIMIT %(limit)s
