-- Forgets one snapshot. Index: snapshot_pkey.
DELETE FROM snapshot
WHERE stream = %(stream)s AND version = %(version)s AND kind = %(kind)s AND code_hash = %(code_hash)s
