-- Gives back everything a worker owns. Index: stream_owner.
UPDATE stream SET owner = NULL WHERE owner = %(worker)s
