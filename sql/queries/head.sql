-- One stream's head. Index: stream_pkey.
SELECT
    s.id, s.version, s.epoch, s.owner, s.position, s.recorded_at, s.created_at
FROM stream AS s
WHERE s.id = %(stream)s
