-- The messages to an agent that an intervention handler dropped.
CREATE INDEX event_dropped ON event (recipient, position) WHERE type = 'MessageDropped';
