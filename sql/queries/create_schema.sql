-- {schema} is put in as a quoted identifier.
CREATE SCHEMA IF NOT EXISTS {schema}
