-- The latest version of a job, whether it removes the job, and who has saved it. $1 name.
select d.latest_version, d.removed, v.saved_by
from courier.job_definitions d
join courier.job_definition_versions v on v.definition_id = d.id and v.version = d.latest_version
where d.kind = 'job' and d.name = $1::text
