-- The latest versions of definitions that were not removed, by name. $1 kind, $2 the name before the first,
-- $3 at most how many, $4 without the bodies.
select d.name, v.version, case when not $4::bool then v.body end, v.saved_by, v.saved_at
from courier.job_definitions d
join courier.job_definition_versions v on v.definition_id = d.id and v.version = d.latest_version
where d.kind = $1::text and not d.removed and d.name > $2::text collate "C"
order by d.name
limit $3::bigint
