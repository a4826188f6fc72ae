-- The worker has closed in good order. Index: worker_pkey.
UPDATE worker SET stopped_at = clock_timestamp() WHERE id = %(worker)s
