-- How many restores and forks were recorded outside of a span of time (a partition's). It answers the same whether the
-- partition of that span is part of the log or not. Index: event_restored.
SELECT count(*)
FROM event AS r
WHERE
    r.type IN ('StreamRestored', 'StreamForked')
    AND (r.recorded_at < %(starts)s OR r.recorded_at >= %(ends)s)
