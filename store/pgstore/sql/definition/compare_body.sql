-- The latest version of a definition, whether it has a body, whether any version has it,
-- and whether the definition was removed. sql/definition/lock_or_create.sql has locked the definition in the same transaction.
-- $1 definition, $2 body.
select d.latest_version,
	coalesce((select v.body operator(pg_catalog.=) $2::pg_catalog.text from courier.job_definition_versions v
		where v.definition_id operator(pg_catalog.=) d.id and v.version operator(pg_catalog.=) d.latest_version), false),
	exists (select from courier.job_definition_versions v
		where v.definition_id operator(pg_catalog.=) d.id and v.body operator(pg_catalog.=) $2::pg_catalog.text),
	d.removed
from courier.job_definitions d
where d.id operator(pg_catalog.=) $1::pg_catalog.int4
