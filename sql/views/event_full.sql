-- The log with every payload in full: like `event`, with what references refer to in their place.
-- A reference that has lost its payload stays one, so whoever reads it finds it damaged, not missing.
CREATE VIEW event_full AS
SELECT
    e.version, e.position, e.recorded_at, e.epoch, e.id, e.occurred_at, e.delivery, e.call, e.stream, e.type, e.sender,
    e.recipient, e.topic, e.message_id, e.message_type, e.outcome, e.cause, e.correlation, e.metadata,
    CASE
        WHEN is_reference(e.payload) THEN coalesce(
            (
                SELECT l.payload FROM large_payload AS l
                WHERE l.hash = substr(e.payload, 2) AND l.month = date_trunc('month', e.recorded_at, 'UTC')
            ),
            e.payload
        )
        ELSE e.payload
    END AS payload
FROM event AS e;
