-- The dependencies of a job, those of the jobs that it depends on, and so on.
-- $1 definition of the job.
with recursive reached as (
	select j.definition_id, j.upstream_id from courier.job_dependencies j where j.definition_id = $1::int
	union
	select j.definition_id, j.upstream_id from reached r join courier.job_dependencies j on j.definition_id = r.upstream_id
)
select d.name, u.name
from reached r
join courier.job_definitions d on d.id = r.definition_id
join courier.job_definitions u on u.id = r.upstream_id
order by d.name, u.name
