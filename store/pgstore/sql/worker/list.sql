-- The workers that have claimed within $1 microseconds, or hold a lease that has not
-- ended. $2 at most how many. $3 executions that were running, $4 since when all others that
-- are running were claimed.
select w.name, w.workspace, w.queues, w.step_types, w.slots, w.version, w.started_at, w.seen_at, w.draining
from courier.workers w
where w.seen_at > clock_timestamp() - $1::bigint::float8 * interval '1 microsecond'
	or w.name in (
		select e.worker from courier.job_executions e
		where e.state = 'running' and e.state_since >= (select $4::text::timestamptz) and e.lease_expires_at > clock_timestamp()
		union all
		select e.worker from courier.job_executions e
		where e.id = any((select $3::text[])::uuid[]) and e.state || '' = 'running' and e.lease_expires_at > clock_timestamp()
	)
order by w.name limit $2::bigint
