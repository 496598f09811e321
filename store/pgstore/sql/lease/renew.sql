-- Extends leases that have not passed to another worker, and returns the requests for
-- their executions. Rows that another statement has locked are skipped, so that a renewal
-- never waits: the caller asks for them again at once. $1 executions, $2 tokens, $3 for
-- how many microseconds.
with l as (
	select e.id, clock_timestamp() as now from unnest($1::text[]::uuid[], $2::text[]::uuid[]) as l (id, token)
	-- Without the || the planner may take the index of states, with an entry for all that ever ran.
	join courier.job_executions e on e.id = l.id and e.lease_token = l.token and e.state || '' = 'running'
	order by e.id
	for update of e skip locked
)
update courier.job_executions e
set heartbeat_at = l.now, lease_expires_at = l.now + $3::bigint::float8 * interval '1 microsecond'
from l where e.id = l.id
returning e.id::text, coalesce(e.request, ''), coalesce(e.requested_by, ''), case when e.request is null then '' else coalesce(e.request_reason, '') end
