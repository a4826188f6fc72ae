-- One retention of a schema at a time, until the session ends; false: another has it. Does not wait.
SELECT pg_try_advisory_lock(hashtext('autogen-eventlog retention'), hashtext(%(schema)s))
