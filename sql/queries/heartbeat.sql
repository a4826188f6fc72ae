-- Says that the worker lives. No row: it must register again. Index: worker_pkey.
UPDATE worker SET heartbeat_at = clock_timestamp() WHERE id = %(worker)s
