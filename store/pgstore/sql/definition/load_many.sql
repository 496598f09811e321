-- Versions of definitions. $1 ids of the definitions, $2 the versions.
select d.id, v.version, d.kind, d.name, v.body, v.saved_by, v.saved_at
from unnest($1::int[], $2::int[]) as n (id, version)
join courier.job_definitions d on d.id = n.id
join courier.job_definition_versions v on v.definition_id = n.id and v.version = n.version
