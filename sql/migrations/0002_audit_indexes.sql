-- Indexes of the audit log (queries/audit_*): lineage backwards, branches, who ran an agent, dropped messages.

-- The few events that say who runs an agent from then on.
CREATE INDEX event_activated ON event (stream, version) WHERE type = 'AgentActivated';

-- The few events that do not continue from the version before them: what lies on an abandoned branch.
CREATE INDEX event_branch ON event (stream, version) WHERE type IN ('StreamRestored', 'StreamForked');

-- The messages to an agent that an intervention handler dropped.
CREATE INDEX event_dropped ON event (recipient, position) WHERE type = 'MessageDropped';

-- One event by its id: lineage backwards. Ids of a process ascend (see EventIds), so it grows at a few right edges only.
CREATE INDEX event_id ON event (id);
