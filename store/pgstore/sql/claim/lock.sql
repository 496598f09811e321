-- Waits for the other claims that count, in a transaction and a statement of
-- its own: what the next statement counts must be what they have committed.
-- $1 lock.
select pg_advisory_xact_lock($1::bigint)
