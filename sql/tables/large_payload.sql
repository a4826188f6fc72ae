-- Payloads of 8 KiB and more, each once a month however often it is recorded: a message that was published to a hundred
-- agents is a hundred deliveries and one row here. An event with such a payload holds a reference to it (`is_reference`);
-- `event_full` shows the log as if there were none.
-- hash: SHA-256 of payload. month: the beginning (UTC) of the month in which the events that refer to it were recorded, so
-- a month of events and what they refer to are removed together (retention) and no count of references is kept.
-- Rows are inserted by `append_large` only and never changed (triggers refuse_*). Partitioned as `event` is.
CREATE TABLE large_payload (
    hash bytea NOT NULL,
    month timestamptz NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (hash, month)
) PARTITION BY RANGE (month);

CREATE TABLE large_payload_default PARTITION OF large_payload DEFAULT;
