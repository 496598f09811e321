-- The latest executions of the members of chain executions, if they exist.
-- $1 chain executions.
select m.chain_execution_id::text, m.ordinal, e.id::text, e.state, e.failure
from courier.chain_members m join courier.job_executions e on e.id = m.execution_id
where m.chain_execution_id = any($1::text[]::uuid[])
