-- Says that an agent type is subscribed no more.
DELETE FROM subscription AS s
WHERE s.agent_type = %(agent_type)s AND s.topic_type = %(topic_type)s AND s.prefix = %(prefix)s
RETURNING s.created_at
