-- What became of messages: one row for each delivery that names one of `causes`. stream, version: the delivery; completed:
-- it ended; alive: the worker that has the agent's stream is there. Indexes: event_cause, event_pkey, stream_pkey.
SELECT
    e.cause, e.stream, e.version,
    EXISTS (
        SELECT FROM event AS d WHERE d.cause = e.id AND d.type = 'DeliveryCompleted' AND d.stream = e.stream
    ) AS completed,
    worker_is_alive(s.owner) AS alive
FROM event AS e
INNER JOIN stream AS s ON s.id = e.stream
WHERE e.cause = ANY(%(causes)s::uuid[]) AND e.type = 'MessageDelivered'
