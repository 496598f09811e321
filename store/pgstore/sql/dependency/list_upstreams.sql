-- The values of dependents of jobs that were not removed. $1 names.
select d.name, d.dependents from courier.job_definitions d where d.kind = 'job' and d.name = any($1::text[]) and d.latest_version > 0 and not d.removed
