-- The latest executions of jobs. $1 jobs.
select d.name, latest.id::text, latest.state
from courier.job_definitions d
cross join lateral (
	select x.id, x.state from courier.job_executions x
	where x.definition_id = d.id and x.has_dependents
	order by x.created_at desc, x.id desc limit 1
) latest
where d.kind = 'job' and d.name = any($1::text[])
