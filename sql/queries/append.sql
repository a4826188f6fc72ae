-- One batch: the writer's only statement on its hot path. Parameter 1: event_input[], binary.
-- Always returns the first stream's row; further ones only where the writer can't infer the answer from it.
SELECT
    a.stream, a.epoch, a.accepted, a.found_epoch, a.found_version, a.recorded_at, a.batch_position, a.batch_recorded_at
FROM append($1) AS a
WHERE a.first_ordinal = 1 OR NOT a.accepted OR a.recorded_at <> a.batch_recorded_at
