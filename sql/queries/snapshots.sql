-- The snapshots of a stream, newest first. Index: snapshot_pkey.
SELECT
    s.stream, s.version, s.position, s.taken_at, s.kind, s.code_hash, s.payload, s.metadata, s.status
FROM snapshot AS s
WHERE s.stream = %(stream)s
ORDER BY s.version DESC, s.taken_at DESC
LIMIT %(limit)s
