-- Entries of files whose name has a part, among those in the last blocks of the table,
-- which are the newest but for those that were put into the place of removed ones. In
-- falling order. $1 the part, $2 at most how many, $3 the schema, $4 how many blocks.
select t.value, t.execution_id::text, t.seq
from courier.trail t
where t.key = 'file' and strpos(t.value, $1::text) > 0 and t.ctid >= (
	select ('(' || greatest(0, pg_relation_size(c.oid) / current_setting('block_size')::bigint - $4::bigint)::text || ',0)')::tid
	from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
	where n.nspname = $3::text and c.relname = 'trail'
)
order by t.value desc, t.execution_id desc, t.seq desc
limit $2::bigint
