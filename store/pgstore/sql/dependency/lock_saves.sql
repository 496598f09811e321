-- Waits for other transactions that save dependencies. $1 lock.
select pg_advisory_xact_lock($1::bigint)
