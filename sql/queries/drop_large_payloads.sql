-- Removes the large payloads of a month whose events were removed. Locks: ACCESS EXCLUSIVE on `large_payload`, so in a
-- transaction that holds none on `event`.
DROP TABLE IF EXISTS {payloads}
