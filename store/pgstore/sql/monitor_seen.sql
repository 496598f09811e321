-- A page of the files that a monitor has seen. $1 monitor, $2 after which name,
-- $3 at most.
select f.name, f.size, f.modified, f.since, f.done, f.gone_at, f.appeared, f.handed, f.handed_size, f.handed_modified, f.handed_at,
	coalesce(f.execution::text, '')
from courier.monitor_files f
where f.monitor = $1::text and f.name > $2::text
order by f.name limit $3::bigint
