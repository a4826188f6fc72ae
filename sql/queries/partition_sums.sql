-- How many events were recorded in a span of time (a partition's), of how many streams, and between which positions.
SELECT count(*), count(DISTINCT e.stream), coalesce(min(e.position), 0), coalesce(max(e.position), 0)
FROM event AS e
WHERE e.recorded_at >= %(starts)s AND e.recorded_at < %(ends)s
