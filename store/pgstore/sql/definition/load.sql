-- A version of a definition. $1 kind, $2 name, $3 version, 0 for the latest.
select v.version, v.body, v.saved_by, v.saved_at
from courier.job_definitions d
join courier.job_definition_versions v on v.definition_id = d.id and v.version = case $3::int when 0 then d.latest_version else $3::int end
where d.kind = $1::text and d.name = $2::text
