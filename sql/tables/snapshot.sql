-- An agent's state at a version: a cache, never the only copy. Rewritten and deleted freely.
-- kind: how it was captured. code_hash: of the class that wrote it. status: what is known of it ('taken', 'proven', ...).
CREATE TABLE snapshot (
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    kind text NOT NULL,
    code_hash text NOT NULL,
    position bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status text NOT NULL,
    metadata json NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (stream, version, kind, code_hash)
);
