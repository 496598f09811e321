-- Creates the members of chain executions, with the columns of their future executions.
-- Returned are the ordinals of those whose job version exists.
-- $1 chain executions, $2 ordinals, $3 names, $4 execution ids, $5 jobs, $6 versions,
-- $7 concurrency limits of the jobs, $8 priorities, $9 queues, $10 step types and
-- $11 limit keys as texts of arrays, $12 timeouts in nanoseconds, $13 params, $14 created by,
-- $15 types and $16 ids of the first steps, $17 dependencies as texts of arrays (empty: none),
-- $18 the longest durations in microseconds and $19 the times after the start of the chain
-- execution in which they are expected to end (0: none).
insert into courier.chain_members (chain_execution_id, ordinal, name, execution_id, definition_id, version, concurrency_limit, priority, queue,
	step_types, limit_keys, timeout_ns, params, created_by, first_step_type, first_step_id, waits_for, max_duration_us, expected_by_us)
select n.chain_execution_id, n.ord, n.name, n.id, d.id, n.version, n.concurrency_limit, n.priority, n.queue, n.step_types::text[],
	n.limit_keys::text[], n.timeout_ns, nullif(n.params, ''), n.by, nullif(n.first_step_type, ''), nullif(n.first_step_id, ''),
	nullif(n.waits_for, '')::text[],
	n.max_duration_us, n.expected_by_us
from unnest($1::text[]::uuid[], $2::int[], $3::text[], $4::text[]::uuid[], $5::text[], $6::int[], $7::int[], $8::int[], $9::text[],
	$10::text[], $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::bigint[], $19::bigint[])
	as n (chain_execution_id, ord, name, id, job, version, concurrency_limit, priority, queue, step_types, limit_keys, timeout_ns, params, by, first_step_type, first_step_id, waits_for, max_duration_us, expected_by_us)
join courier.job_definitions d on d.kind = 'job' and d.name = n.job and not d.removed
join courier.job_definition_versions v on v.definition_id = d.id and v.version = n.version
returning chain_execution_id::text, ordinal
