-- Deliveries and dropped messages of all streams with how they ended, newest first: at most `limit` past the cursor
-- `after` (a position). Every parameter but after, limit and current may be NULL: no such filter. first_stream /
-- last_stream: the range of an agent type. since (inclusive), until (exclusive): recorded_at. from_position,
-- to_position: what that means for positions (audit_position_bounds). current: without abandoned branches. class_name:
-- the short name of the message's class; message_type: the full one. outcome: one of Outcome, or running. branch: for
-- each stream that was restored or forked, the places where its present past jumps back: what has a version between
-- to_version and version (both exclusive) lies on an abandoned branch. done: the delivery's completion, of the present
-- if the delivery is; an abandoned delivery keeps the one it had. producer: who ran the agent then. Run unprepared, so
-- that each combination gets a plan of its own. Indexes: event_position, event_recorded_at, event_correlation,
-- event_cause, event_failed, event_restored, event_activated.
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
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.delivery, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.payload, e.cause, e.correlation, e.metadata,
    done.outcome, done.recorded_at, done.message_type, done.payload, done.metadata,
    EXISTS (
        SELECT FROM branch AS b WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
    ),
    producer.worker
FROM event_full AS e
LEFT JOIN LATERAL (
    SELECT d.outcome, d.recorded_at, d.message_type, d.payload, d.metadata
    FROM event_full AS d
    WHERE
        d.cause = e.id AND d.type = 'DeliveryCompleted' AND d.stream = e.stream AND d.recorded_at >= e.recorded_at
        AND (
            NOT EXISTS (
                SELECT FROM branch AS b
                WHERE b.stream = d.stream AND d.version > b.to_version AND d.version < b.version
            )
            OR EXISTS (
                SELECT FROM branch AS b
                WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
            )
        )
    ORDER BY d.version DESC
    LIMIT 1
) AS done ON e.type = 'MessageDelivered'
LEFT JOIN LATERAL (
    SELECT a.metadata -> 'producer' ->> 'worker' AS worker
    FROM event AS a
    WHERE a.stream = e.stream AND a.type = 'AgentActivated' AND a.version <= e.version AND a.epoch = e.epoch
    ORDER BY a.version DESC
    LIMIT 1
) AS producer ON e.type = 'MessageDelivered'
WHERE
    e.type IN ('MessageDelivered', 'MessageDropped') AND e.position < %(after)s
    AND e.position >= %(from_position)s AND e.position <= %(to_position)s
    AND (
        %(first_stream)s::text IS NULL
        OR (e.type = 'MessageDelivered' AND e.stream >= %(first_stream)s AND e.stream < %(last_stream)s)
        OR (
            e.type = 'MessageDropped'
            AND e.recipient COLLATE "C" >= %(first_stream)s AND e.recipient COLLATE "C" < %(last_stream)s
        )
    )
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
    AND (
        NOT %(current)s::boolean
        OR NOT EXISTS (
            SELECT FROM branch AS b WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
        )
    )
    AND (%(outcome)s::text IS DISTINCT FROM 'dropped' OR e.type = 'MessageDropped')
    -- Few fail: those few are found first, and the rest is spared the look for its completion.
    AND (
        coalesce(%(outcome)s, '') NOT IN ('raised', 'cancelled')
        OR e.id IN (
            SELECT f.cause FROM event AS f
            WHERE f.type = 'DeliveryCompleted' AND f.outcome IN ('raised', 'cancelled') AND f.cause IS NOT NULL
        )
    )
    AND (
        %(outcome)s::text IS NULL
        OR (%(outcome)s = 'dropped' AND e.type = 'MessageDropped')
        OR (
            %(outcome)s = 'running' AND e.type = 'MessageDelivered' AND done.outcome IS NULL
            AND NOT EXISTS (
                SELECT FROM branch AS b
                WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
            )
        )
        OR done.outcome = %(outcome)s
    )
ORDER BY e.position DESC
LIMIT %(limit)s
