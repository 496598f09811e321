-- How executions stand, to tell why transitions were not written.
-- Last, whether somebody has subscribed to events. $1 executions.
select id::text, case state when 'waiting' then 'queued' else state end, coalesce(token::text, ''), lease_first, case when state = 'running' then seq else lease_last end, seq,
	coalesce(request, ''), coalesce(requested_by, ''), coalesce(chain_id::text, ''),
	exists (select from courier.subscriptions where not disabled)
from courier.job_executions where id = any($1::text[]::uuid[])
