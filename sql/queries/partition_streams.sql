-- The streams of which events were recorded in a span of time (a partition's): their last version in it, and the oldest
-- proven snapshot at or after that (NULL: none). A page of at most `limit` past the stream `after`. Index: snapshot_pkey.
SELECT
    held.stream, held.first, held.last,
    (
        SELECT min(s.version) FROM snapshot AS s
        WHERE s.stream = held.stream AND s.version >= held.last AND s.status = 'proven'
    ) AS snapshot
FROM (
    SELECT e.stream, min(e.version) AS first, max(e.version) AS last
    FROM event AS e
    WHERE e.recorded_at >= %(starts)s AND e.recorded_at < %(ends)s AND e.stream > %(after)s
    GROUP BY e.stream
    ORDER BY e.stream
    LIMIT %(limit)s
) AS held
ORDER BY held.stream
