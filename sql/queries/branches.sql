-- Where a stream does not continue from the version before, ascending: version of the event that says so, and the
-- stream and version whose past it continues. Index: event_restored.
SELECT
    e.version,
    coalesce(e.metadata ->> 'from_stream', e.stream),
    coalesce(e.metadata ->> 'from_version', e.metadata ->> 'to_version')::bigint
FROM event AS e
WHERE e.stream = %(stream)s AND e.type IN ('StreamRestored', 'StreamForked')
ORDER BY e.version
