-- One event by its id: lineage backwards. Ids of a process ascend (see EventIds), so it grows at a few right edges only.
CREATE INDEX event_id ON event (id);
