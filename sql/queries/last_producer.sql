-- Who and what produced a stream's events up to a version: the producer that the last activation names, if any.
-- Index: event_activated.
SELECT e.metadata -> 'producer'
FROM event AS e
WHERE e.stream = %(stream)s AND e.version <= %(version)s AND e.type = 'AgentActivated'
ORDER BY e.version DESC
LIMIT 1
