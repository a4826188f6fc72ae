-- How a transaction begins that removes tables: it waits for locks for 5 s at most, because others wait behind it, and each
-- of its statements sees what was committed when the lock was there.
SET LOCAL lock_timeout = '5s';
SET LOCAL transaction_isolation = 'read committed'
