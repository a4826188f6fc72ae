-- See the function.
SELECT version_at(%(stream)s, %(position)s, %(time)s)
