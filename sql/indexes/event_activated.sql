-- The few events that say who runs an agent from then on.
CREATE INDEX event_activated ON event (stream, version) WHERE type = 'AgentActivated';
