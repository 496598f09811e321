-- Creates one execution as sql/enqueue/create_many.sql does, in half of the time: unnesting a
-- list of one costs as much as the INSERT.
-- $1 id, $2 job, $3 version, $4 concurrency limit of the job, $5 priority, $6 queue,
-- $7 step types, $8 limit keys, $9 timeout in nanoseconds, $10 params, $11 created by,
-- $12 idempotency key, $13 delay in microseconds, $14 held, $15 type and $16 id of the
-- first step, $17 whether the version must be the latest, $18 dependencies, $19 channel
-- (empty: none) and $20 payload of a notification if the execution may be claimed, $21 the
-- execution that is run again (empty: none), $22 other options as JSON (empty: none), $23 the
-- scope of the idempotency key (empty: the job).
with created as (
	insert into courier.job_executions (id, created_at, definition_id, version, concurrency_limit, priority, queue, step_types, limit_keys,
		timeout_ns, params, created_by, idempotency_key, due_at, state, state_since, attempt, last_audit_seq, step, first_step_type, first_step_id,
		waits_for, held, has_dependents, rerun_of, options, key_scope)
	select $1::text::uuid, clock.now, d.id, v.version, $4::int, $5::int, $6::text, $7::text[], $8::text[],
		$9::bigint, nullif($10::text, ''), $11::text, nullif($12::text, ''), clock.now + $13::bigint::float8 * interval '1 microsecond',
		case when $14::bool then 'created' else 'queued' end, clock.now, 1, 1, 0,
		nullif($15::text, ''), case when $15::text <> '' then nullif($16::text, '') end,
		case when pg_catalog.cardinality($18::text[]) > 0 then $18::text[] end, nullif($14::bool, false), nullif(d.dependents > 0, false), nullif($21::text, '')::uuid, nullif($22::text, ''),
		nullif($23::text, '')
	from (select clock_timestamp() as now offset 0) clock
	join courier.job_definitions d on d.kind = 'job' and d.name = $2::text and not d.removed and (not $17::bool or d.latest_version = $3::int)
	join courier.job_definition_versions v on v.definition_id = d.id and v.version = $3::int
	on conflict do nothing
	returning id, created_at, state, waits_for
)
select c.id::text, c.created_at, case when $19::text <> '' and c.state = 'queued' and c.waits_for is null then pg_notify($19::text, $20::text)::text end is not null,
	pg_current_xact_id()::text
from created c
