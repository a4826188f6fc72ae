-- Appends an application's events through `append_large`, from arrays of one element an event (states: binary), and the
-- payloads that they refer to. Returns one row a stream. It runs in the transaction that claimed the streams, so none can
-- be refused. Locks: see `append_large`.
SELECT
    a.stream, a.epoch, a.accepted, a.found_epoch, a.found_version, a.batch_position
FROM append_large(ARRAY(
    SELECT
        ROW(
            n.version, n.epoch, n.id, %(occurred_at)s::timestamptz, 0, 0, n.stream, %(type)s::text,
            NULL, NULL, NULL, NULL, n.topic, NULL, NULL, NULL, n.metadata, n.state
        )::event_input
    FROM unnest(
        %(streams)s::text[], %(versions)s::bigint[], %(epochs)s::bigint[], %(ids)s::uuid[], %(topics)s::text[],
        %(metadata)s::json[], %(states)b::bytea[]
    ) WITH ORDINALITY AS n (stream, version, epoch, id, topic, metadata, state, ordinal)
    ORDER BY n.ordinal
), %(payloads)b::bytea[]) AS a
