-- Saves the jobs that the latest version of a job depends on. $1 definition of the job,
-- $2 names.
with upstream as materialized (
	select d.id from courier.job_definitions d where d.kind = 'job' and d.name = any($2::text[])
), gone as (
	delete from courier.job_dependencies j
	where j.definition_id = $1::int and not exists (select from upstream u where u.id = j.upstream_id)
)
insert into courier.job_dependencies (definition_id, upstream_id)
select $1::int, u.id from upstream u
on conflict do nothing
