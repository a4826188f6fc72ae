-- One conversation, across streams.
CREATE INDEX event_correlation ON event (correlation) WHERE correlation IS NOT NULL;
