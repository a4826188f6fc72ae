-- One creator or migrator of a schema at a time, until the transaction ends.
SELECT pg_advisory_xact_lock(hashtext('autogen-eventlog prepare'), hashtext(%(schema)s))
