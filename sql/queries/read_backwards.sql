-- A page of one stream, backwards: after_version < version <= until_version, at most `limit` events, and none once
-- those before it have `bytes` of payload. Index: event_pkey.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM (
    SELECT
        f.*,
        sum(octet_length(f.payload)) OVER (
            ORDER BY f.version DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS bytes_before
    FROM event_full AS f
    WHERE f.stream = %(stream)s AND f.version > %(after_version)s AND f.version <= %(until_version)s
    ORDER BY f.version DESC
    LIMIT %(limit)s
) AS e
WHERE coalesce(e.bytes_before, 0) < %(bytes)s
ORDER BY e.version DESC
