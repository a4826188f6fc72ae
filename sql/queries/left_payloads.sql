-- The partitions of `large_payload` whose month of events was removed, oldest first.
SELECT l.relname
FROM pg_inherits AS i
INNER JOIN pg_class AS l ON l.oid = i.inhrelid
INNER JOIN pg_class AS parent ON parent.oid = i.inhparent
INNER JOIN dropped_partition AS d ON l.relname = 'large_payload_' || right(d.name, 7)
WHERE parent.relname = 'large_payload' AND parent.relnamespace = quote_ident(current_schema())::regnamespace
ORDER BY l.relname
