-- Locks the latest executions of the members of a chain execution. Returned are the
-- executions, whether their leases have ended, and the ordinals of the members.
-- $1 chain execution.
select
\ir ../execution/read_columns.inc.sql
	, e.state = 'running' and e.lease_expires_at <= clock_timestamp(), m.ordinal
from courier.chain_members m join courier.job_executions e on e.id = m.execution_id
where m.chain_execution_id = $1::text::uuid
order by e.id
for update of e
