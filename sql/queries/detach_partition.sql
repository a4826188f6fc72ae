-- Takes a partition out of the log; appends and reads wait until the transaction ends.
ALTER TABLE event DETACH PARTITION {partition}
