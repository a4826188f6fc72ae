-- The handler runs that did not end well, by the delivery that began them: as a rule few.
CREATE INDEX event_failed ON event (cause) WHERE type = 'DeliveryCompleted' AND outcome IN ('raised', 'cancelled');
