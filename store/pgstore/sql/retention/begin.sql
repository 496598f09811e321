-- Begins a transaction that removes executions. It may remove entries of the
-- audit, and walks along the index of jobs, of which it reads a small part, when
-- estimates of how much that is make reading a whole table and sorting it look
-- better. Returned is whether nobody else removes executions, where that matters.
-- $1 whether it does, $2 lock.
select case when $1::bool then pg_try_advisory_xact_lock($2::bigint) else true end,
	set_config('courier.retention', 'on', true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
