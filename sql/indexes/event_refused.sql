-- What instances that had lost their agent tried to record.
CREATE INDEX event_refused ON event (recipient, position) WHERE type = 'WritesRefused';
