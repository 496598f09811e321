-- Updates schedules after they were fired. They are locked.
-- $1 names; of each $2 disabled, $3 paused, $4 waiting, $5 successive failures,
-- $6 reason, $7 problem, $8 next fire time, $9 due, $10 last fire time, $11 last
-- execution, $12 open executions as the text of an array, $13 if not 0, the microseconds from now until
-- it is due, in place of $9, $14 from when on ticks can be moved. Times and ids may be empty.
with u as materialized (
	select u.name, u.disabled, u.paused, u.waiting, u.consecutive_failures, u.reason, u.problem, nullif(u.next, '')::timestamptz as next_fire_at,
		case when u.after > 0 then clock.now + u.after::float8 * interval '1 microsecond' else nullif(u.due, '')::timestamptz end as due_at,
		nullif(u.last, '')::timestamptz as last_fire_at, nullif(u.ran, '')::uuid as last_execution_id,
		u.open::uuid[] as open_execution_ids, nullif(u.moves, '')::timestamptz as moves_from
	from (select clock_timestamp() as now) clock, unnest($1::text[], $2::bool[], $3::bool[], $4::bool[], $5::int[], $6::text[], $7::text[],
		$8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::text[])
	as u (name, disabled, paused, waiting, consecutive_failures, reason, problem, next, due, last, ran, open, after, moves)
), job as (
	update courier.job_schedules s set revision = s.revision + 1, disabled = u.disabled, paused = u.paused, waiting = u.waiting,
		consecutive_failures = u.consecutive_failures, reason = u.reason, problem = u.problem, next_fire_at = u.next_fire_at, due_at = u.due_at,
		last_fire_at = u.last_fire_at, last_execution_id = u.last_execution_id, open_execution_ids = u.open_execution_ids, moves_from = u.moves_from
	from u where s.name = any($1::text[]) and s.name = u.name
)
update courier.chain_schedules s set revision = s.revision + 1, disabled = u.disabled, paused = u.paused, waiting = u.waiting,
	consecutive_failures = u.consecutive_failures, reason = u.reason, problem = u.problem, next_fire_at = u.next_fire_at, due_at = u.due_at,
	last_fire_at = u.last_fire_at, last_execution_id = u.last_execution_id, open_execution_ids = u.open_execution_ids, moves_from = u.moves_from
from u where s.name = any($1::text[]) and s.name = u.name
