-- Deliveries without a completion, of one stream or (NULL) of all, oldest first. For reports: reads the whole stream.
-- Index: event_pkey when a stream is given.
SELECT
    e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
    e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
    e.metadata
FROM event AS e
WHERE
    e.type = 'MessageDelivered'
    AND (%(stream)s::text IS NULL OR e.stream = %(stream)s)
    AND NOT EXISTS (
        SELECT FROM event AS done
        WHERE
            done.type = 'DeliveryCompleted' AND done.stream = e.stream AND done.delivery = e.delivery
            AND (%(stream)s::text IS NULL OR done.stream = %(stream)s)
    )
ORDER BY e.position
