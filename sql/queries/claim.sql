-- See the function.
SELECT
    c.epoch, c.version, c.created
FROM claim(%(stream)s, %(worker)s, %(takeover)s) AS c
