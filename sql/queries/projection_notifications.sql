-- A page of notifications for a projection: after < position <= until, settled, in global order, of the given topics (none
-- given: all), at most `limit`. horizon: the position below which this very snapshot has looked, so that a reader need
-- not look through it again; a row without an event says only that. A notification's topic is the event's type, for an
-- application's own event (see projections/originators.py) its topic. Index: event_position.
SELECT
    h.horizon, p.stream, p.version, p.position, p.epoch, p.recorded_at, p.id, p.type, p.occurred_at, p.delivery, p.call,
    p.sender, p.recipient, p.topic, p.message_id, p.message_type, p.payload, p.outcome, p.cause, p.correlation,
    p.metadata
FROM (SELECT position_horizon() AS horizon) AS h
LEFT JOIN LATERAL (
    SELECT
        e.stream, e.version, e.position, e.epoch, e.recorded_at, e.id, e.type, e.occurred_at, e.delivery, e.call,
        e.sender, e.recipient, e.topic, e.message_id, e.message_type, e.payload, e.outcome, e.cause, e.correlation,
        e.metadata
    FROM event_full AS e
    WHERE
        e.position > %(after)s AND e.position <= %(until)s AND e.position < position_horizon()
        AND (
            %(topics)s::text[] IS NULL
            OR CASE WHEN starts_with(e.stream, '$application/') THEN e.message_type ELSE e.type END = ANY(%(topics)s)
        )
    ORDER BY e.position
    LIMIT %(limit)s
) AS p ON true
ORDER BY p.position
