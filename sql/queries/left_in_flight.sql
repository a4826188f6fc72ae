-- Agents of one type (ids from `first` up to `last`) that a worker which is gone left with a handler run not ended, among
-- the last thousand events of each. Indexes: stream_pkey, event_pkey.
SELECT DISTINCT s.id
FROM stream AS s
INNER JOIN event AS e ON e.stream = s.id AND e.version > s.version - 1000
WHERE
    s.id >= %(first)s AND s.id < %(last)s AND s.owner IS NOT NULL AND NOT worker_is_alive(s.owner)
    AND e.type IN ('MessageDelivered', 'StateLoaded')
    AND NOT EXISTS (
        SELECT FROM event AS d
        WHERE d.cause = e.id AND d.type = 'DeliveryCompleted' AND d.stream = s.id AND d.delivery = e.version
    )
