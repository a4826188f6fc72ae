-- What a writer makes sure of when it connects, and then every hour: partitions, and positions that only grow.
SELECT ensure_partitions(), raise_position_base()
