-- Locks the chain execution that an execution is a member of, if any, and returns it.
-- $1 the execution.
select c.id::text, c.state, coalesce(c.request, ''), c.member_states, c.plan, (select e.chain_member from courier.job_executions e where e.id = $1::text::uuid)
from courier.chain_executions c
where c.id = (select e.chain_execution_id from courier.job_executions e where e.id = $1::text::uuid)
for update
