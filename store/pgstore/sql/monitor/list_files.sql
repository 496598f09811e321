-- A page of the files that a monitor has seen. $1 monitor, $2 the name before the first,
-- $3 at most how many.
select f.name, f.size, f.modified_at, f.unchanged_since, f.has_done_file, f.missing_since, f.appearances, f.handed_appearance, f.handed_size, f.handed_modified_at, f.handed_at,
	coalesce(f.execution_id::text, '')
from courier.monitor_files f
where f.monitor = $1::text and f.name > $2::text
order by f.name limit $3::bigint
