-- A time range over all streams: audit by minute, position_at. Grows at its right edge only.
CREATE INDEX event_recorded_at ON event (recorded_at);
