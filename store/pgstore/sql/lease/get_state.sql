-- The leases of executions, to decide why a transition was not written; last, whether
-- somebody has subscribed to events. $1 executions.
select id::text, state, coalesce(lease_token::text, ''), lease_first_seq, case when state = 'running' then last_audit_seq else lease_last_seq end, last_audit_seq,
	coalesce(request, ''), coalesce(requested_by, ''), coalesce(chain_execution_id::text, ''),
	exists (select from courier.subscriptions where not disabled)
from courier.job_executions where id = any($1::text[]::uuid[])
