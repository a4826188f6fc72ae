-- The worker has closed in good order. settled: it leaves no handler in the middle of its work. Index: worker_pkey.
UPDATE worker SET
    stopped_at = clock_timestamp(),
    settled_at = CASE WHEN %(settled)s THEN clock_timestamp() END
WHERE id = %(worker)s
