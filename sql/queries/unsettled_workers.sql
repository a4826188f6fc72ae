-- Workers that are gone and may have left something behind, oldest first. in_good_order: it closed, so who waited for its
-- messages was told.
SELECT w.id, w.started_at, w.stopped_at IS NOT NULL AS in_good_order
FROM worker AS w
WHERE w.settled_at IS NULL AND NOT worker_is_alive(w.id)
ORDER BY w.started_at, w.id
