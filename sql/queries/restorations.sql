-- Where a stream was taken back, ascending: version of the StreamRestored event, version it goes back to.
-- Index: event_restored.
SELECT
    e.version, (e.metadata ->> 'to_version')::bigint
FROM event AS e
WHERE e.stream = %(stream)s AND e.type = 'StreamRestored'
ORDER BY e.version
