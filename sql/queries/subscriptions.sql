-- The subscriptions that count, those gone stale less than `grace` seconds ago included.
SELECT s.agent_type, s.topic_type, s.prefix, s.created_at
FROM subscription AS s
WHERE s.stale_at IS NULL OR s.stale_at > clock_timestamp() - make_interval(secs => %(grace)s)
