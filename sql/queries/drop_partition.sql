-- Removes a partition that is out of the log already.
DROP TABLE {partition}
