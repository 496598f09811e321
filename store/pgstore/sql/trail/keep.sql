-- Keeps the trail of what steps have reported in this transaction, the names of files, and of
-- the items in which they have failed: the statement is sent behind checkpoints that have
-- some. $1 executions, $2 for each the first number of the audit that the transaction may have
-- written. What it has written has its id as xmin. Items are named by the first 1,000 records
-- of an execution with which some have failed.
insert into courier.trail (key, value, execution_id, seq)
select 'file', n.name, n.execution_id, n.seq
from (
	select distinct
\ir name.inc.sql
		as name, h.execution_id, h.seq
	from unnest($1::uuid[], $2::bigint[]) as w (id, seq)
	cross join lateral (
		select x.execution_id, x.seq, x.files, x.item_labels from courier.execution_history x
		where x.execution_id = w.id and x.seq >= w.seq and x.xmin = pg_current_xact_id()::xid and (x.files is not null or x.item_labels is not null) offset 0
	) h
	cross join lateral (
		select j.value ->> 'path'::text as path from json_array_elements(h.files::json) j
		union all
		select j.value from json_array_elements_text(h.item_labels::json) j
		where (select count(*) from (
			select from courier.execution_history y where y.execution_id = h.execution_id and y.seq < h.seq and y.failed_loop is not null limit 1000
		) z) < 1000
	) f
) n
where n.name <> ''
