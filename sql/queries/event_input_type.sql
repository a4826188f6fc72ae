-- The number of the type of `append`'s array elements: it differs from database to database.
SELECT 'event_input'::regtype::oid::bigint
