-- Locks a chain execution and tells how it stands. $1 which, $2 whether the plan is
-- wanted too, $3 an execution whose name as a member is (empty: none).
select c.id::text, c.state, coalesce(c.request, ''), c.member_states, case when $2::bool then c.plan else '' end,
	coalesce((select e.chain_member from courier.job_executions e where e.id = nullif($3::text, '')::uuid and e.chain_execution_id = c.id), '')
from courier.chain_executions c
where c.id = $1::text::uuid
for update
