-- Gives one stream back, if it is still the worker's under that epoch. Index: stream_pkey.
UPDATE stream SET owner = NULL WHERE id = %(stream)s AND epoch = %(epoch)s AND owner = %(worker)s
