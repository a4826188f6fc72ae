-- Takes the next epoch of each stream for an application that appends once: no worker owns it afterwards. Streams must
-- come sorted, so that two applications can't deadlock. See the function `claim`.
SELECT
    s.id, c.epoch, c.version
FROM unnest(%(streams)s::text[]) AS s (id)
CROSS JOIN LATERAL claim(s.id, NULL, false) AS c
