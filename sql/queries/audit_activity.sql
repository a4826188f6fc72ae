-- Deliveries with since <= recorded_at < until, counted by agent (by_agent) or by the message's class, and how they
-- ended. An abandoned delivery counts with the outcome it had; of two completions the later one. Indexes:
-- event_recorded_at, event_cause.
SELECT
    CASE WHEN %(by_agent)s::boolean THEN e.stream ELSE coalesce(e.message_type, '') END AS name,
    count(*) AS deliveries,
    count(*) FILTER (WHERE done.outcome = 'replied'),
    count(*) FILTER (WHERE done.outcome = 'raised'),
    count(*) FILTER (WHERE done.outcome = 'cancelled'),
    count(*) FILTER (WHERE done.outcome IS NULL),
    min(e.recorded_at),
    max(e.recorded_at)
FROM event AS e
LEFT JOIN LATERAL (
    SELECT d.outcome
    FROM event AS d
    WHERE
        d.cause = e.id AND d.type = 'DeliveryCompleted' AND d.stream = e.stream AND d.recorded_at >= e.recorded_at
    ORDER BY d.version DESC
    LIMIT 1
) AS done ON true
WHERE e.type = 'MessageDelivered' AND e.recorded_at >= %(since)s AND e.recorded_at < %(until)s
GROUP BY name
ORDER BY deliveries DESC, name
