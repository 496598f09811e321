-- Entries of files whose name has a part, among those in the last blocks of the table,
-- which are the newest but for those that were put into the place of removed ones. In
-- falling order. $1 the part, $2 at most how many, $3 the schema, $4 how many blocks. The
-- blocks are read first: with the key in the condition, the planner walks the whole index.
with newest as materialized (
	select t.key, t.value, t.execution_id, t.seq from courier.trail t
	where t.ctid >= (
		select ('(' || greatest(0, pg_relation_size(c.oid) / current_setting('block_size')::bigint - $4::bigint)::text || ',0)')::tid
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = $3::text and c.relname = 'trail'
	)
)
select n.value, n.execution_id::text, n.seq
from newest n
where n.key = 'file' and strpos(n.value, $1::text) > 0
order by n.value desc, n.execution_id desc, n.seq desc
limit $2::bigint
