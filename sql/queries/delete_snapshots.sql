-- Forgets the snapshots of a stream below a version. Index: snapshot_pkey.
DELETE FROM snapshot WHERE stream = %(stream)s AND version < %(below_version)s
