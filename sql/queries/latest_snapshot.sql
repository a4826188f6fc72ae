-- The newest snapshot of a stream at or below a version. kind, code_hash: NULL for any. without: states to pass over.
-- Index: snapshot_pkey.
SELECT
    s.stream, s.version, s.position, s.taken_at, s.kind, s.code_hash, s.payload, s.metadata, s.status
FROM snapshot AS s
WHERE
    s.stream = %(stream)s AND s.version <= %(at_or_below_version)s
    AND (%(kind)s::text IS NULL OR s.kind = %(kind)s)
    AND (%(code_hash)s::text IS NULL OR s.code_hash = %(code_hash)s)
    AND s.status <> ALL(%(without)s::text[])
ORDER BY s.version DESC, s.taken_at DESC
LIMIT 1
