-- Writes down that a partition is gone.
INSERT INTO dropped_partition (name, starts, ends, events, first_position, last_position, archive)
VALUES (%(name)s, %(starts)s, %(ends)s, %(events)s, %(first_position)s, %(last_position)s, %(archive)s)
