-- How many events a partition holds that is out of the log, and the position of the last one (0: none).
SELECT count(*), coalesce(max(e.position), 0) FROM {partition} AS e
