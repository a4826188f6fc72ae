-- Keeps snapshots as they are until the transaction ends: SHARE, so they can be read. Taken before any lock on `event`.
LOCK TABLE snapshot IN SHARE MODE
