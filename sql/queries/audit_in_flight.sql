-- Deliveries of the present that have no completion, of one stream or (NULL) of all, oldest first: at most `limit` past
-- the cursor `after` (a position), recorded from `since` on (NULL: ever). Columns as in audit_messages_newest. For reports:
-- without a stream and a time it reads every delivery and every completion once. Indexes: event_pkey when a stream is given, event_restored, event_activated.
WITH RECURSIVE branch (stream, version, to_version) AS (
    (
        SELECT DISTINCT ON (r.stream)
            r.stream, r.version,
            CASE WHEN coalesce(r.metadata ->> 'from_stream', r.stream) = r.stream
                THEN coalesce(r.metadata ->> 'from_version', r.metadata ->> 'to_version')::bigint ELSE 0 END
        FROM event AS r
        WHERE r.type IN ('StreamRestored', 'StreamForked') AND (%(stream)s::text IS NULL OR r.stream = %(stream)s)
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
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.delivery, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.payload, e.cause, e.correlation, e.metadata,
    NULL, NULL::timestamptz, NULL, NULL::bytea, NULL::json, false, producer.worker
FROM event_full AS e
LEFT JOIN LATERAL (
    SELECT a.metadata -> 'producer' ->> 'worker' AS worker
    FROM event AS a
    WHERE a.stream = e.stream AND a.type = 'AgentActivated' AND a.version <= e.version AND a.epoch = e.epoch
    ORDER BY a.version DESC
    LIMIT 1
) AS producer ON e.type = 'MessageDelivered'
WHERE
    e.type = 'MessageDelivered' AND e.position > %(after)s AND e.position >= %(from_position)s
    AND (%(since)s::timestamptz IS NULL OR e.recorded_at >= %(since)s)
    AND (%(stream)s::text IS NULL OR e.stream = %(stream)s)
    AND NOT EXISTS (
        SELECT FROM branch AS b WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
    )
    AND NOT EXISTS (
        SELECT FROM event AS d
        WHERE
            d.cause = e.id AND d.type = 'DeliveryCompleted' AND d.stream = e.stream
            AND (%(stream)s::text IS NULL OR d.stream = %(stream)s)
            AND NOT EXISTS (
                SELECT FROM branch AS b
                WHERE b.stream = d.stream AND d.version > b.to_version AND d.version < b.version
            )
    )
ORDER BY e.position
LIMIT %(limit)s
