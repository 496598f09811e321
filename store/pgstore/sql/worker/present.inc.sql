	-- Of a worker w: it has claimed within $1 microseconds, or holds a lease that has not ended.
	-- $2 and $3 say which executions run. Without the || the planner takes the index of these.
	(w.seen_at > clock_timestamp() - $1::bigint::float8 * interval '1 microsecond'
		or w.name in (
			select e.worker from courier.job_executions e
			where e.state = 'running' and e.state_since >= (select $3::text::timestamptz) and e.lease_expires_at > clock_timestamp()
			union all
			select e.worker from courier.job_executions e
			where e.id = any((select $2::text[])::uuid[]) and e.state || '' = 'running' and e.lease_expires_at > clock_timestamp()
		))
