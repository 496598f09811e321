-- Saves the state of files. $1 monitor; of each file $2 name, $3 size, $4 modification
-- time, $5 unchanged since, $6 whether it has a done file, $7 missing since,
-- $8 appearances, $9 the appearance that was handed over, $10 size and $11 modification
-- time then, $12 when, $13 execution. Times and ids may be empty. Names are distinct.
insert into courier.monitor_files as f (monitor, name, size, modified_at, unchanged_since, has_done_file, missing_since, appearances, handed_appearance, handed_size, handed_modified_at, handed_at, execution_id)
select $1::text, u.name, u.size, nullif(u.modified, '')::timestamptz, u.since::timestamptz, u.done, nullif(u.gone, '')::timestamptz,
	u.appeared, u.handed, u.handed_size, nullif(u.handed_modified, '')::timestamptz, nullif(u.handed_at, '')::timestamptz, nullif(u.execution, '')::uuid
from unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::bool[], $7::text[], $8::int[], $9::int[], $10::bigint[], $11::text[],
	$12::text[], $13::text[])
as u (name, size, modified, since, done, gone, appeared, handed, handed_size, handed_modified, handed_at, execution)
on conflict (monitor, name) do update set size = excluded.size, modified_at = excluded.modified_at, unchanged_since = excluded.unchanged_since,
	has_done_file = excluded.has_done_file, missing_since = excluded.missing_since, appearances = excluded.appearances, handed_appearance = excluded.handed_appearance,
	handed_size = excluded.handed_size, handed_modified_at = excluded.handed_modified_at, handed_at = excluded.handed_at, execution_id = excluded.execution_id
