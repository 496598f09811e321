-- Has new executions of jobs marked as such on which others depend. $1 names.
update courier.job_definitions d set dependents = 1
where d.kind = 'job' and d.name = any($1::text[]) and d.dependents = 0
