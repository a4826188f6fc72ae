-- Positions between which everything lies that was recorded at or after since and before until (NULL: no bound): so
-- that a page begins where the span does, however much was recorded before or after it. An append takes its transaction
-- number, then reads the clock. So what has a lower number than one recorded a minute before since was itself recorded
-- before since, unless it was held up for that minute between the two, or the server's clock was set back by as much
-- (position_at allows a second). The nearest hundred are looked at, so that one that was held up does no harm. Index:
-- event_recorded_at.
SELECT
    CASE WHEN %(since)s::timestamptz IS NULL THEN 0 ELSE coalesce((
        SELECT min(earlier.position)
        FROM (
            SELECT e.position
            FROM event AS e
            WHERE e.recorded_at < %(since)s::timestamptz - interval '1 minute'
            ORDER BY e.recorded_at DESC
            LIMIT 100
        ) AS earlier
    ), 0) END,
    CASE WHEN %(until)s::timestamptz IS NULL THEN 9223372036854775807 ELSE coalesce((
        SELECT max(later.position)
        FROM (
            SELECT e.position
            FROM event AS e
            WHERE e.recorded_at >= %(until)s::timestamptz + interval '1 minute'
            ORDER BY e.recorded_at
            LIMIT 100
        ) AS later
    ), 9223372036854775807) END
