-- One batch with large payloads. Parameters: 1 event_input[], 2 bytea[], both binary. Returns what `append` returns.
SELECT
    a.stream, a.epoch, a.accepted, a.found_epoch, a.found_version, a.recorded_at, a.batch_position, a.batch_recorded_at
FROM append_large($1, $2) AS a
WHERE a.first_ordinal = 1 OR NOT a.accepted OR a.recorded_at <> a.batch_recorded_at
