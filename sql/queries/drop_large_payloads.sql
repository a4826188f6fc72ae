-- Removes the large payloads of a month whose events were removed. A month that ended before there were any has none.
DROP TABLE IF EXISTS {payloads}
