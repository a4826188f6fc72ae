-- One row: what is added to a transaction's number to give positions (see `append`).
-- Raised only by `raise_position_base`, after a dump was restored into a cluster with lower transaction numbers.
CREATE TABLE position_base (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    base bigint NOT NULL
);

INSERT INTO position_base (base) VALUES (0);
