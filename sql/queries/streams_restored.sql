-- Streams whose past is not simply their own events in order: restored or forked. Index: event_restored.
SELECT DISTINCT r.stream FROM event AS r WHERE r.type IN ('StreamRestored', 'StreamForked') ORDER BY r.stream
