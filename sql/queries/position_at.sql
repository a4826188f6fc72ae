-- The largest settled position recorded at or before a time; 0 if none.
-- Transaction numbers and clock readings are taken in that order but not as one, so the largest position may be a little
-- older than the latest time: the second before is looked through. Index: event_recorded_at (+ 0: or the maximum would be
-- looked for along event_position, through everything later).
SELECT
    coalesce(max(e.position + 0), 0)
FROM event AS e
WHERE
    e.recorded_at <= %(time)s AND e.position < position_horizon()
    AND e.recorded_at > (
        SELECT l.recorded_at - interval '1 second'
        FROM event AS l
        WHERE l.recorded_at <= %(time)s AND l.position < position_horizon()
        ORDER BY l.recorded_at DESC
        LIMIT 1
    )
