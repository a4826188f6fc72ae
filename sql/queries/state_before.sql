-- What a save finds in the stream of an agent's state: the last event, and the event `id` (which may be the same), if they
-- are there. Run after the claim, in a statement of its own: what the claim has waited for is then seen.
-- Index: event_pkey, event_id.
(
    SELECT
        e.version, e.id
    FROM event AS e
    WHERE e.stream = %(stream)s
    ORDER BY e.version DESC
    LIMIT 1
)
UNION ALL
(
    SELECT
        e.version, e.id
    FROM event AS e
    WHERE e.id = %(id)s AND e.stream = %(stream)s
)
