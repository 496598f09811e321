-- Locks an execution and returns it, and whether its lease has ended. $1 execution.
select
\ir ../execution/read_columns.inc.sql
	, e.state = 'running' and e.lease_expires_at <= clock_timestamp()
from courier.job_executions e
where e.id = $1::text::uuid
for update
