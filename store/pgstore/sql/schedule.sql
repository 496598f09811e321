-- A schedule, and the instant; without the former if it is not there. $1 name.
select clock_timestamp(), s.kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.failures, s.reason, s.problem,
	s.next_fire, s.due_at, s.last_fire, s.last_execution, s.open_executions
from (select) one
left join (
	select 'job' as kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.failures, s.reason, s.problem,
		s.next_fire, s.due_at, s.last_fire, coalesce(s.last_execution::text, '') as last_execution, s.open_executions::text[] as open_executions
	from courier.job_schedules s where s.name = $1::text
	union all
	select 'chain', s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.failures, s.reason, s.problem,
		s.next_fire, s.due_at, s.last_fire, coalesce(s.last_execution::text, ''), s.open_executions::text[]
	from courier.chain_schedules s where s.name = $1::text
) s on true
