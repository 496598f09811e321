-- The time of the database.
select clock_timestamp()
