-- Heads: one row per stream, made by `claim`, moved by `append`. It is what makes (stream, version) unique and gapless
-- although `event` is partitioned by time: every append locks and checks the row in its own transaction.
-- id: 'type/key'. COLLATE "C": the streams of a type are the range from 'type/' to 'type0', whatever the locale.
-- epoch: fencing token. owner: worker that claimed it last; NULL: released.
-- position, recorded_at: of the last event. fillfactor: appends update in place (HOT), no index entry is written.
CREATE TABLE stream (
    id text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 0,
    owner uuid,
    position bigint NOT NULL DEFAULT 0,
    recorded_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
