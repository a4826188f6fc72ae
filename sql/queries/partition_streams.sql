-- The streams of which events were recorded in a span of time (a partition's): their first and last version in it, the
-- oldest proven snapshot at or after that last one (NULL: none), and the first version in it that is a message which was
-- accepted and has not reached everybody it was for (NULL: none). A page of at most `limit` past the stream `after`.
-- A message waits where audit_undelivered.sql says so, but for one that was for nobody (metadata fan_out 0): nothing can be
-- done about it. Indexes: event_pkey, event_cause, event_restored, snapshot_pkey.
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
    held.stream, held.first, held.last,
    (
        SELECT min(s.version) FROM snapshot AS s
        WHERE s.stream = held.stream AND s.version >= held.last AND s.status = 'proven'
    ) AS snapshot,
    (
        SELECT min(e.version) FROM event AS e
        WHERE
            e.stream = held.stream AND e.version >= held.first AND e.version <= held.last
            AND e.recorded_at >= %(starts)s AND e.recorded_at < %(ends)s
            AND e.type IN ('MessageSent', 'MessagePublished', 'MessageSubmitted')
            AND NOT EXISTS (
                SELECT FROM branch AS b
                WHERE b.stream = e.stream AND e.version > b.to_version AND e.version < b.version
            )
            AND NOT EXISTS (
                SELECT FROM event AS led WHERE led.cause = e.id AND led.type IN ('MessageDropped', 'ReplyReceived')
            )
            -- An imported message reached those it was for in the log that it comes from, or is said to wait still.
            AND (e.metadata ->> 'imported_from' IS NULL OR e.metadata -> 'imported_from' ->> 'waits' = 'true')
            AND (SELECT count(*) FROM event AS led WHERE led.cause = e.id AND led.type = 'MessageDelivered')
                < coalesce((e.metadata ->> 'fan_out')::bigint, 1)
    ) AS waiting
FROM (
    SELECT e.stream, min(e.version) AS first, max(e.version) AS last
    FROM event AS e
    WHERE e.recorded_at >= %(starts)s AND e.recorded_at < %(ends)s AND e.stream > %(after)s
    GROUP BY e.stream
    ORDER BY e.stream
    LIMIT %(limit)s
) AS held
ORDER BY held.stream
