-- The payload as jsonb, or NULL where jsonb can't hold it (U+0000, lone surrogates) or it is no JSON at all.
-- For people and ad-hoc queries; the bytes are the truth (jsonb folds numbers, key order and duplicate keys).
CREATE FUNCTION payload_as_jsonb(payload bytea)
RETURNS jsonb
LANGUAGE plpgsql
IMMUTABLE
STRICT
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
END
$$;
