-- Global order: tail, audit pages. Grows at its right edge only.
CREATE INDEX event_position ON event (position);
