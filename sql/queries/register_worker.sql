-- See the function.
SELECT register_worker(%(worker)s, %(host)s, %(process)s, %(identity)s, make_interval(secs => %(lease)s))
