-- A version of a definition, by the id of the definition. $1 id, $2 version.
select d.kind, d.name, v.version, v.body, v.saved_by, v.saved_at
from courier.job_definitions d
join courier.job_definition_versions v on v.definition_id = d.id
where d.id = $1::int and v.version = $2::int
