-- The few events by which a stream does not continue from the version before: read with every stream.
CREATE INDEX event_restored ON event (stream, version) WHERE type IN ('StreamRestored', 'StreamForked');
