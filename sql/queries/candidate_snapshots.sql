-- Snapshots that are not proven yet, of one stream or (NULL) of all past `after`, by stream and version. Index: snapshot_pkey.
SELECT
    s.stream, s.version, s.position, s.taken_at, s.kind, s.code_hash, s.payload, s.metadata, s.status
FROM snapshot AS s
WHERE s.status = 'taken' AND s.stream > %(after)s AND (%(stream)s::text IS NULL OR s.stream = %(stream)s)
ORDER BY s.stream, s.version
LIMIT %(limit)s
