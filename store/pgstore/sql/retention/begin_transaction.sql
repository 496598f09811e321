-- Begins a transaction that removes executions. It may remove audit entries. Its
-- statements read a small part of the index of jobs, even if the planner estimates that
-- reading and sorting a whole table is cheaper. Returned is whether the lock was free, or
-- true if it is not asked for. $1 whether it is asked for, $2 lock.
select case when $1::bool then pg_try_advisory_xact_lock($2::bigint) else true end,
	set_config('courier.retention', 'on', true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
	set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true)
