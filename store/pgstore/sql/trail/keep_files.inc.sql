-- A part of the statements that insert step executions, as "history": the trail of their
-- files.
, files as (
	insert into courier.trail (key, value, execution_id, seq)
	select 'file', n.name, n.execution_id, n.seq
	from (
		select distinct
\ir name.inc.sql
			as name, r.execution_id, r.seq
		from history r cross join lateral json_array_elements(r.files::json) f
		where r.files is not null
	) n
	where n.name <> ''
)
