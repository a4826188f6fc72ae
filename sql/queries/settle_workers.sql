-- What these workers left behind has ended; who is alive again has not left. Index: worker_pkey.
UPDATE worker SET settled_at = clock_timestamp() WHERE id = ANY(%(workers)s::uuid[]) AND NOT worker_is_alive(id)
