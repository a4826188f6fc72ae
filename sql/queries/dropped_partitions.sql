-- What retention has removed, oldest first.
SELECT d.name, d.starts, d.ends, d.events, d.first_position, d.last_position, d.archive, d.dropped_at, d.dropped_by
FROM dropped_partition AS d
ORDER BY d.name
