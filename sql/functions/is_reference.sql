-- Whether an event's payload is a reference to a row of `large_payload`: a zero byte and a SHA-256. No encoded message
-- begins with a zero byte, and the writer keeps whatever else does so in `large_payload`, so no payload is taken for one.
CREATE FUNCTION is_reference(payload bytea)
RETURNS boolean
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN octet_length(payload) = 33 AND substr(payload, 1, 1) = '\x00'::bytea;
