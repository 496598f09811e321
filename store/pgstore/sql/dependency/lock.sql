-- Lets others that save what jobs depend on wait for the transaction. $1 lock.
select pg_advisory_xact_lock($1::bigint)
