-- Writes down that a migration was applied.
INSERT INTO migration (number, name) VALUES (%(number)s, %(name)s)
