-- The log with every payload in full: like `event`, with what references refer to in their place.
-- In the place of a payload that is gone, or is not what its hash says, stands the text `lost large_payload` between a zero
-- byte and the hash: who reads it finds it damaged, and not missing or another.
CREATE VIEW event_full AS
SELECT
    e.version, e.position, e.recorded_at, e.epoch, e.id, e.occurred_at, e.delivery, e.call, e.stream, e.type, e.sender,
    e.recipient, e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata,
    CASE
        WHEN is_reference(e.payload) THEN coalesce(
            (
                SELECT l.payload FROM large_payload AS l
                WHERE
                    l.hash = substr(e.payload, 2) AND l.month = date_trunc('month', e.recorded_at, 'UTC')
                    AND sha256(l.payload) = l.hash
            ),
            '\x00'::bytea || convert_to('lost large_payload ', 'UTF8') || substr(e.payload, 2)
        )
        ELSE e.payload
    END AS payload
FROM event AS e;
