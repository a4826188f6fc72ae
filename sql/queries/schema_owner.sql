-- Whose the schema's tables are, and whether this role may act as that one.
SELECT pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'MEMBER')
FROM pg_catalog.pg_class AS c
WHERE c.oid = 'event'::regclass
