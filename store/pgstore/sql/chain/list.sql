-- Chain executions, newest first. $1 at most how many; the filter has the rest.
select c.id::text, d.name, c.version, c.params, c.created_by, coalesce(c.idempotency_key, ''), c.created_at, c.started_at, c.ended_at,
	c.state, coalesce(c.request, ''), c.member_states, c.plan, coalesce(c.rerun_of::text, ''), c.options
from courier.chain_executions c join courier.job_definitions d on d.id = c.definition_id
where true :filter
order by c.id desc
limit $1::bigint
