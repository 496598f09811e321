-- Saves a body as the next version, unless the latest version has it, and returns the
-- latest version. sql/definition/lock_or_create.sql has locked the definition in the same
-- transaction. $1 definition, $2 body, $3 saved by.
with latest as (
	select v.version, v.body as body, v.saved_by, v.saved_at
	from courier.job_definitions d
	join courier.job_definition_versions v on v.definition_id = d.id and v.version = d.latest_version
	where d.id = $1::int
), next as (
	update courier.job_definitions d set latest_version = latest_version + 1, removed = $2::text = 'null'
	where id = $1::int and not exists (select from latest where body = $2::text)
	returning latest_version
), saved as (
	insert into courier.job_definition_versions (definition_id, version, body, saved_by, saved_at)
	select $1::int, next.latest_version, $2::text, $3::text, clock_timestamp() from next
	returning version, body, saved_by, saved_at
)
select version, body, saved_by, saved_at from saved
union all
select version, body, saved_by, saved_at from latest where not exists (select from next)
