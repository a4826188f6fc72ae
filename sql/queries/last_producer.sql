-- Who and what produced a stream's events up to a version: the producer that the last activation names,
-- if any, and that activation's version.
-- Index: event_activated.
SELECT e.metadata -> 'producer', e.version
FROM event AS e
WHERE e.stream = %(stream)s AND e.version <= %(version)s AND e.type = 'AgentActivated'
ORDER BY e.version DESC
LIMIT 1
