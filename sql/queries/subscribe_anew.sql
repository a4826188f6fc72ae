-- A worker has registered an agent type: what it was subscribed to before counts only if it is subscribed again.
UPDATE subscription AS s
SET stale_at = coalesce(s.stale_at, clock_timestamp())
WHERE s.agent_type = %(agent_type)s
RETURNING s.created_at
