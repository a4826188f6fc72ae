-- The few events that cut a stream into branches.
CREATE INDEX event_restored ON event (stream, version) WHERE type = 'StreamRestored';
