	-- Of a worker w: it has claimed within $1 microseconds, or holds a lease that has not ended.
	(w.seen_at > clock_timestamp() - $1::bigint::float8 * interval '1 microsecond'
		or w.name in (select e.worker from courier.job_executions e where e.state = 'running' and e.lease_expires_at > clock_timestamp()))
