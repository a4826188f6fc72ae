-- A page in global order, after a position and below the horizon of this very snapshot, so that no late commit can
-- appear behind the reader. until: a position not to be passed, exclusive. At most `limit` events,
-- and none once those before it have `bytes` of payload. Index: event_position.
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
    WHERE f.position > %(after)s AND f.position < least(position_horizon(), %(until)s::bigint)
    ORDER BY f.position
    LIMIT %(limit)s
) AS e
WHERE coalesce(e.bytes_before, 0) < %(bytes)s
ORDER BY e.position
