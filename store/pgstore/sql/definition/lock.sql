-- Locks a definition, and returns its id and its latest version. $1 kind, $2 name.
select d.id, d.latest_version from courier.job_definitions d
where d.kind = $1::text and d.name = $2::text and d.latest_version > 0
for update
