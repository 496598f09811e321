-- Locks a chain execution and returns it. $1 chain execution, $2 whether the plan is
-- needed too, $3 an execution whose member name is returned (empty: none).
select c.id::text, c.state, coalesce(c.request, ''), c.member_states, case when $2::bool then c.plan else '' end,
	coalesce((select e.chain_member from courier.job_executions e where e.id = nullif($3::text, '')::uuid and e.chain_execution_id = c.id), '')
from courier.chain_executions c
where c.id = $1::text::uuid
for update
