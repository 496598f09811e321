-- Locks a name of monitors: no two puts of one name are under way at once.
-- $1 lock.
select pg_advisory_xact_lock($1::bigint)
