-- Locks schedules, in the order of their names, and returns their revisions. $1 names.
with job as materialized (
	select s.name, s.revision from courier.job_schedules s where s.name = any($1::text[]) order by s.name for update
), chain as materialized (
	select s.name, s.revision from courier.chain_schedules s where s.name = any($1::text[]) order by s.name for update
)
select 'job', job.name, job.revision from job
union all
select 'chain', chain.name, chain.revision from chain
