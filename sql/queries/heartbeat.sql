-- Says that the worker lives: what another settled while it was thought dead is open again. No row: it must register
-- again. Index: worker_pkey.
UPDATE worker SET heartbeat_at = clock_timestamp(), settled_at = NULL WHERE id = %(worker)s
