-- Where the last restore of all agents that had begun at or before a position was complete: the position of its last
-- event; NULL if there was none. Before it, some agents were in the new past and others in the one that was left.
-- Index: event_restored.
SELECT max(e.position)
FROM event AS e
WHERE
    e.type = 'StreamRestored'
    AND e.metadata ->> 'whole' = (
        SELECT l.metadata ->> 'whole'
        FROM event AS l
        WHERE l.type = 'StreamRestored' AND l.position <= %(position)s AND l.metadata ->> 'whole' IS NOT NULL
        ORDER BY l.position DESC
        LIMIT 1
    )
