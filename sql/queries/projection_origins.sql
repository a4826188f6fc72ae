-- By how much the originator's versions differ from the stream's, of streams that have events. Run after the claim, in
-- a statement of its own: another application's first append may have been waited for. Index: event_pkey.
SELECT
    s.id, o.distance
FROM unnest(%(streams)s::text[]) AS s (id)
CROSS JOIN LATERAL (
    SELECT coalesce((e.metadata ->> 'originator_version')::bigint - e.version, 0) AS distance
    FROM event AS e
    WHERE e.stream = s.id
    ORDER BY e.version
    LIMIT 1
) AS o
