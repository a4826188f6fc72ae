-- The log for people: like `event`, with the payload as jsonb where it can be (else NULL, see payload_as_jsonb).
CREATE VIEW event_json AS
SELECT
    e.stream, e.version, e.position, e.recorded_at, e.type, e.delivery, e.call, e.sender, e.recipient, e.topic,
    e.message_id, e.message_type, e.outcome, payload_as_jsonb(e.payload) AS payload, e.metadata,
    e.id, e.cause, e.correlation, e.epoch, e.occurred_at
FROM event_full AS e;
