-- The names of definitions. $1 ids.
select id, name from courier.job_definitions where id = any($1::int[])
