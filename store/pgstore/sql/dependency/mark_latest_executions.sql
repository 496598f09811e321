-- Marks the latest executions of jobs that were created before the jobs had dependents.
-- All transactions that write executions without the mark have ended. $1 names.
with latest as materialized (
	select d.id as definition, (
		select x.id from courier.job_executions x where x.definition_id = d.id
		order by x.created_at desc, x.id desc limit 1
	) as id
	from courier.job_definitions d
	where d.kind = 'job' and d.name = any($1::text[]) and d.dependents = 1
), marked as (
	update courier.job_executions e set has_dependents = true from latest where e.id = latest.id and e.has_dependents is null
)
update courier.job_definitions d set dependents = 2 from latest where d.id = latest.definition
