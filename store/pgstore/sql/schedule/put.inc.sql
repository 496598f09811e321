-- The rest of a statement that creates or replaces a schedule. The first revision is a
-- time in microseconds, so a schedule that is removed and created again gets no revision
-- a second time.
-- $1 name, $2 target, $3 body, $4 disabled, $5 paused, $6 waiting, $7 successive
-- failures, $8 reason, $9 problem, $10 next fire time, $11 due, $12 last fire time,
-- $13 last execution, $14 open executions as the text of an array, $15 from when on ticks can be
-- moved. Times and ids may be empty.
as s (name, target, body, saved_at, revision, disabled, paused, waiting, consecutive_failures, reason, problem,
	next_fire_at, due_at, last_fire_at, last_execution_id, open_execution_ids, moves_from)
select $1::text, $2::text, $3::text, clock.now, (extract(epoch from clock.now) * 1000000::numeric)::bigint, $4::bool, $5::bool, $6::bool, $7::int,
	$8::text, $9::text, nullif($10::text, '')::timestamptz, nullif($11::text, '')::timestamptz, nullif($12::text, '')::timestamptz,
	nullif($13::text, '')::uuid, $14::text::uuid[], nullif($15::text, '')::timestamptz
from (select clock_timestamp() as now) clock
on conflict (name) do update set target = excluded.target, body = excluded.body, saved_at = excluded.saved_at, revision = s.revision + 1,
	disabled = excluded.disabled, paused = excluded.paused, waiting = excluded.waiting, consecutive_failures = excluded.consecutive_failures,
	reason = excluded.reason, problem = excluded.problem, next_fire_at = excluded.next_fire_at, due_at = excluded.due_at,
	last_fire_at = excluded.last_fire_at, last_execution_id = excluded.last_execution_id, open_execution_ids = excluded.open_execution_ids,
	moves_from = excluded.moves_from
returning s.saved_at, s.revision
