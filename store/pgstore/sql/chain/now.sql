-- The store's now.
select clock_timestamp()
