-- Says that an agent type is subscribed; one that was before is so still.
INSERT INTO subscription AS s (agent_type, topic_type, prefix)
VALUES (%(agent_type)s, %(topic_type)s, %(prefix)s)
ON CONFLICT (agent_type, topic_type, prefix) DO UPDATE SET stale_at = NULL
RETURNING s.created_at
