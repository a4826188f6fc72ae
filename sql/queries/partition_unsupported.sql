-- One of the streams that have no proven snapshot (any more) at a version between a first and a last one, both included;
-- no row: all have. Parameters: three arrays of the same length. Index: snapshot_pkey.
SELECT n.stream
FROM unnest(%(streams)s::text [], %(firsts)s::bigint [], %(lasts)s::bigint []) AS n (stream, first, last)
WHERE
    NOT EXISTS (
        SELECT FROM snapshot AS s
        WHERE s.stream = n.stream AND s.version >= n.first AND s.version <= n.last AND s.status = 'proven'
    )
LIMIT 1
