-- The largest committed position, settled or not (0: none), and the horizon of the same snapshot. Index: event_position.
SELECT
    coalesce((SELECT max(e.position) FROM event AS e), 0), position_horizon()
