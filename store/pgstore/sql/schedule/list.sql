-- A page of schedules by name, and the time; the time alone if there are none. $1 the
-- name before the first, $2 at most how many, $3 kind, $4 job or chain; empty: all.
select clock_timestamp(), s.kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
	s.next_fire_at, s.due_at, s.last_fire_at, s.last_execution_id, s.open_execution_ids, s.moves_from
from (select) one
left join (
	select p.* from (
		(select 'job' as kind, s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, '') as last_execution_id, s.open_execution_ids::text[] as open_execution_ids, s.moves_from
		from courier.job_schedules s where s.name > $1::text and $3::text in ('', 'job') and $4::text in ('', s.target) order by s.name limit $2::bigint)
		union all
		(select 'chain', s.name, s.target, s.body, s.saved_at, s.revision, s.disabled, s.paused, s.waiting, s.consecutive_failures, s.reason, s.problem,
		s.next_fire_at, s.due_at, s.last_fire_at, coalesce(s.last_execution_id::text, ''), s.open_execution_ids::text[], s.moves_from
		from courier.chain_schedules s where s.name > $1::text and $3::text in ('', 'chain') and $4::text in ('', s.target) order by s.name limit $2::bigint)
	) p order by p.name limit $2::bigint
) s on true
order by s.name
