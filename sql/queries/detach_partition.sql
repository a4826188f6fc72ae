-- Takes a partition out of the log; appends and reads wait for the moment that it takes.
ALTER TABLE event DETACH PARTITION {partition}
