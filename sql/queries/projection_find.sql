-- Positions of events that may have been stored, after an acknowledgement was lost. Index: event_id.
SELECT
    e.id, e.position
FROM event AS e
WHERE e.id = ANY(%(ids)s::uuid[])
