-- The first version of a stream that the log still holds; 1 if it holds none. Index: event_pkey.
SELECT coalesce(min(e.version), 1) FROM event AS e WHERE e.stream = %(stream)s
