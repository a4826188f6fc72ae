-- Keeps a snapshot; one of the same stream, version, kind and code is replaced.
INSERT INTO snapshot (stream, version, kind, code_hash, position, taken_at, status, metadata, payload)
VALUES (
    %(stream)s, %(version)s, %(kind)s, %(code_hash)s, %(position)s, coalesce(%(taken_at)s, clock_timestamp()),
    %(status)s, %(metadata)s, %(payload)s
)
ON CONFLICT (stream, version, kind, code_hash) DO UPDATE
SET
    position = excluded.position, taken_at = excluded.taken_at, status = excluded.status,
    metadata = excluded.metadata, payload = excluded.payload
