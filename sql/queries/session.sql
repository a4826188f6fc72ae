-- Set up a new connection: all names resolve in one schema, all times are UTC. Parameter schema: its name, unquoted.
SELECT
    set_config('search_path', quote_ident(%(schema)s) || ', pg_temp', false),
    set_config('TimeZone', 'UTC', false)
