-- Waits for the other claims under limits. It is a statement of its own, so that the
-- next statement counts what those claims have committed. $1 lock.
select pg_advisory_xact_lock($1::bigint)
