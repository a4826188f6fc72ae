-- The numbers of the migrations this schema has.
SELECT m.number FROM migration AS m ORDER BY m.number
