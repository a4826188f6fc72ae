-- Which numbered migrations this schema has. A number above what the code knows: the schema is newer, refuse.
CREATE TABLE migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
