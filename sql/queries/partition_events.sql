-- Events recorded in a span of time (a partition's), in global order: at most `limit` past the position
-- `after`, and none once those before it have `bytes` of payload.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM (
    SELECT
        f.*,
        sum(octet_length(f.payload)) OVER (
            ORDER BY f.position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS bytes_before
    FROM event_full AS f
    WHERE f.recorded_at >= %(starts)s AND f.recorded_at < %(ends)s AND f.position > %(after)s
    ORDER BY f.position
    LIMIT %(limit)s
) AS e
WHERE coalesce(e.bytes_before, 0) < %(bytes)s
ORDER BY e.position
