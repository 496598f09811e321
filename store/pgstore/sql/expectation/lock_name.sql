-- Locks a name of expectations: puts of the same name wait for each other. $1 lock.
select pg_advisory_xact_lock($1::bigint)
