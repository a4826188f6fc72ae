-- What an event led to: lineage forward.
CREATE INDEX event_cause ON event (cause) WHERE cause IS NOT NULL;
