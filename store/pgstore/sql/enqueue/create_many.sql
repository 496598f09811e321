-- Creates the executions that do not exist and whose job version does.
-- $1 ids, $2 jobs, $3 versions, $4 concurrency limits of the jobs, $5 priorities,
-- $6 queues, $7 step types and $8 limit keys as texts of arrays, $9 timeouts in nanoseconds,
-- $10 params, $11 created by, $12 idempotency keys, $13 delays in microseconds, $14 held,
-- $15 now, if an earlier statement of the same call has asked for it, $16 types and
-- $17 ids of the first steps, which the first claim starts, $18 whether the version must
-- be the latest, $19 dependencies as texts of arrays (empty: none), $20 the executions that are run
-- again (empty: none), $21 other options as JSON (empty: none), $22 the scopes of the
-- idempotency keys (empty: their job). Deadlines and labels are
-- kept by sql/enqueue/keep_deadlines.sql and keep_labels.sql, in the same transaction.
with clock as materialized (
	select coalesce(nullif($15::text, '')::timestamptz, clock_timestamp()) as now
), n as materialized (
	select * from unnest($1::text[]::uuid[], $2::text[], $3::int[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::bigint[],
		$10::text[], $11::text[], $12::text[], $13::bigint[], $14::bool[], $16::text[], $17::text[], $18::bool[], $19::text[], $20::text[], $21::text[], $22::text[])
	with ordinality as n (id, job, version, concurrency_limit, priority, queue, step_types, limit_keys, timeout_ns, params, by, key, delay, hold, first_step_type, first_step_id, latest, waits_for, rerun_of, options, key_scope, ord)
), created as (
	insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
		timeout_ns, params, created_by, idempotency_key, due_at, state, state_since, attempt, last_audit_seq, step, first_step_type, first_step_id,
		waits_for, held, has_dependents, rerun_of, options, key_scope)
	select n.id, clock.now, d.id, n.version, n.concurrency_limit, n.priority, n.queue, n.step_types::text[],
		n.limit_keys::text[], n.timeout_ns, nullif(n.params, ''), n.by, nullif(n.key, ''),
		clock.now + n.delay::float8 * interval '1 microsecond', case when n.hold then 'created' else 'queued' end, clock.now, 1, 1, 0,
		nullif(n.first_step_type, ''), case when n.first_step_type <> '' then nullif(n.first_step_id, '') end,
		nullif(n.waits_for, '')::text[], nullif(n.hold, false), nullif(d.dependents > 0, false),
		nullif(n.rerun_of, '')::uuid, nullif(n.options, ''), nullif(n.key_scope, '')
	from clock, n
	join courier.job_definitions d on d.kind = 'job' and d.name = n.job and not d.removed and (not n.latest or d.latest_version = n.version)
	join courier.job_definition_versions v on v.definition_id = d.id and v.version = n.version
	order by n.ord
	on conflict do nothing
	returning id, created_at
)
select c.id::text, c.created_at from created c
