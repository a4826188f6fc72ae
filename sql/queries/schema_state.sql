-- Whether the schema has our tables. Parameter schema: its name, unquoted.
-- Reads the catalog itself: to_regclass could answer from a cache older than the lock that we have just waited for.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class AS c
    INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = 'migration'
)
