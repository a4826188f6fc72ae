-- What a worker owns, to release it all at close. Not touched by appends.
CREATE INDEX stream_owner ON stream (owner) WHERE owner IS NOT NULL;
