-- Extends leases as sql/lease/renew.sql does, and replaces the progress of those that have
-- any. The JSON gets the microsecond at which the progress last changed, as its first field.
-- $1 executions, $2 tokens, $3 for how many microseconds, $4 progress (empty: unchanged), $5
-- for how many microseconds it has not changed.
with l as (
	select e.id, clock_timestamp() as now, l.progress, l.idle from unnest($1::text[]::uuid[], $2::text[]::uuid[], $4::text[], $5::bigint[]) as l (id, token, progress, idle)
	-- Without the || the planner may take the index of states, with an entry for all that ever ran.
	join courier.job_executions e on e.id = l.id and e.lease_token = l.token and e.state || '' = 'running'
	order by e.id
	for update of e skip locked
)
update courier.job_executions e
set heartbeat_at = l.now, lease_expires_at = l.now + $3::bigint::float8 * interval '1 microsecond',
	progress = case when l.progress <> '' then
		'{"changed":' || ((extract(epoch from l.now) * 1000000::numeric)::bigint - l.idle)::text || ',' || substr(l.progress, 2)
		else e.progress end
from l where e.id = l.id
returning e.id::text, coalesce(e.request, ''), coalesce(e.requested_by, ''), case when e.request is null then '' else coalesce(e.request_reason, '') end
