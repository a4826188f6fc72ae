-- Where the event of an id is. Index: event_id.
SELECT e.stream, e.version, e.position
FROM event AS e
WHERE e.id = %(id)s
