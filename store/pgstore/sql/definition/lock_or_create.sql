-- Locks the definition of a name and returns its id. It creates the definition if there
-- is none. $1 kind, $2 name.
insert into courier.job_definitions (kind, name, latest_version) values ($1::text, $2::text, 0)
on conflict (kind, name) do update set latest_version = courier.job_definitions.latest_version
returning id
