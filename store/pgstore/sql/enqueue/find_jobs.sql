-- The jobs of executions that are about to be copied into job_executions. $1 jobs, $2
-- versions, $3 whether the version must be the latest. Returned are the ordinals of those that
-- exist, their ids, whether other jobs depend on them, and the instant of the creation. The
-- update changes nothing: by its lock sql/dependency/list_open_writers.sql finds the
-- transaction, which may have read that no other job depends on a job.
with locked as (
	update courier.job_executions set priority = priority where false
)
select n.ord, d.id, d.dependents > 0, clock_timestamp()
from unnest($1::text[], $2::int[], $3::bool[]) with ordinality as n (job, version, latest, ord)
cross join lateral (
	select x.id, x.dependents from courier.job_definitions x join courier.job_definition_versions v on v.definition_id = x.id and v.version = n.version
	where x.kind = 'job' and x.name = n.job and not x.removed and (not n.latest or x.latest_version = n.version) limit 1
) d
