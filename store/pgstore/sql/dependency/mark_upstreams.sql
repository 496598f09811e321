-- Marks jobs as having dependents, so that new executions are marked. $1 names.
update courier.job_definitions d set dependents = 1
where d.kind = 'job' and d.name = any($1::text[]) and d.dependents = 0
