-- The monthly partitions of `event` that end at or before a time, oldest first: name, month, bytes on disk with indexes
-- and with the large payloads of that month.
SELECT
    c.relname,
    to_timestamp(right(c.relname, 7), 'YYYY_MM') AS starts,
    to_timestamp(right(c.relname, 7), 'YYYY_MM') + interval '1 month' AS ends,
    pg_total_relation_size(c.oid) + coalesce(pg_total_relation_size(l.oid), 0) AS bytes
FROM pg_inherits AS i
INNER JOIN pg_class AS c ON c.oid = i.inhrelid
INNER JOIN pg_class AS parent ON parent.oid = i.inhparent
LEFT JOIN pg_class AS l ON l.relnamespace = c.relnamespace AND l.relname = 'large_payload_' || right(c.relname, 7)
WHERE
    parent.relname = 'event' AND parent.relnamespace = quote_ident(current_schema())::regnamespace
    AND c.relname ~ '^event_[0-9]{4}_[0-9]{2}$'
    AND to_timestamp(right(c.relname, 7), 'YYYY_MM') + interval '1 month' <= %(before)s
ORDER BY c.relname
