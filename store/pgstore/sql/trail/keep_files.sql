-- Keeps the trail of the files that steps have reported in this transaction: the statement is
-- sent behind checkpoints that have some. $1 executions, $2 for each the first number of the
-- audit that the transaction may have written. What it has written has its id as xmin.
insert into courier.trail (key, value, execution_id, seq)
select 'file', n.name, n.execution_id, n.seq
from (
	select distinct
\ir name.inc.sql
		as name, h.execution_id, h.seq
	from unnest($1::uuid[], $2::bigint[]) as w (id, seq)
	cross join lateral (
		select x.execution_id, x.seq, x.files from courier.execution_history x
		where x.execution_id = w.id and x.seq >= w.seq and x.xmin = pg_current_xact_id()::xid and x.files is not null offset 0
	) h
	cross join lateral json_array_elements(h.files::json) f
) n
where n.name <> ''
