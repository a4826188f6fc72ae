-- Writes down what was learnt about a snapshot. Index: snapshot_pkey.
UPDATE snapshot SET status = %(status)s
WHERE stream = %(stream)s AND version = %(version)s AND kind = %(kind)s AND code_hash = %(code_hash)s
