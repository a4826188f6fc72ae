-- The bounds of an audit page of one stream as versions: low < version <= high.
-- since (inclusive), until (exclusive), cursor (a position, exclusive, in the direction of reading): NULL for none.
SELECT
    greatest(
        CASE WHEN %(since)s::timestamptz IS NULL THEN 0
            ELSE version_at(%(stream)s, NULL, %(since)s::timestamptz - interval '1 microsecond') END,
        CASE WHEN %(cursor)s::bigint IS NULL OR %(newest_first)s THEN 0
            ELSE version_at(%(stream)s, %(cursor)s, NULL) END
    ),
    least(
        CASE WHEN %(until)s::timestamptz IS NULL THEN 9223372036854775807
            ELSE version_at(%(stream)s, NULL, %(until)s::timestamptz - interval '1 microsecond') END,
        CASE WHEN %(cursor)s::bigint IS NULL OR NOT %(newest_first)s THEN 9223372036854775807
            ELSE version_at(%(stream)s, %(cursor)s - 1, NULL) END
    )
