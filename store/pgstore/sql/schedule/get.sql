-- A schedule, and the time; the time alone if it does not exist. $1 name.
select clock_timestamp(), s.kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
	s.next_fire_at, s.due_at, s.last_fire_at, s.last_execution_id, s.open_execution_ids, s.moves_from
from (select) one
left join (
	select 'job' as kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, '') as last_execution_id, s.open_execution_ids::text[] as open_execution_ids, s.moves_from
	from courier.job_schedules s where s.name = $1::text
	union all
	select 'chain', s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, ''), s.open_execution_ids::text[], s.moves_from
	from courier.chain_schedules s where s.name = $1::text
) s on true
