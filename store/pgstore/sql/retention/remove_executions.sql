-- Removes executions of a job, in the order of their ids, with their history
-- and their trail. sql/retention/begin_transaction.sql precedes it in the same transaction. It skips
-- executions that another statement has locked, members of a chain execution that has not
-- ended or can be retried, because others may read their outputs, those that hold files that may
-- exist nowhere else, and the latest
-- execution of a job that other jobs depend on. Returned are how many were removed, and
-- the last id.
--
-- $1 job, $2 from which execution, $3 the last that can be too old, $4 that age
-- in microseconds, $5 the last that is too many, $6 whether failed ones are
-- removed, $7 at most how many executions, $8 about how many entries of the audit.
with clock as materialized (
	select clock_timestamp() as now
), old as materialized (
	select e.id, e.last_audit_seq from courier.job_executions e, clock
	where e.definition_id = $1::int and e.id >= $2::text::uuid and e.id <= greatest($3::text::uuid, $5::text::uuid)
		and (e.state in ('completed', 'cancelled') or e.state = 'failed' and $6::bool)
		and
\ir holds_none.inc.sql
		and (e.chain_execution_id is null or not exists (
			select from courier.chain_executions c
			where c.id = e.chain_execution_id and c.state not in ('completed', 'cancelled') and not (c.state = 'failed' and $6::bool)
		))
		and (e.ended_at <= clock.now - $4::bigint::float8 * interval '1 microsecond' and $4::bigint > 0 or e.id <= $5::text::uuid)
		and (e.has_dependents is null or e.id <> coalesce((
			select x.id from courier.job_executions x where x.definition_id = $1::int and x.has_dependents
			order by x.created_at desc, x.id desc limit 1
		), '00000000-0000-0000-0000-000000000000'))
	order by e.id limit $7::bigint
	for update of e skip locked
), part as materialized (
	-- The lock brings a row as it now is, but what is deleted is what was there when
	-- the statement began: an entry that came in between would be left.
	select o.id from (select old.id, old.last_audit_seq, (sum(old.last_audit_seq) over (order by old.id))::bigint - old.last_audit_seq as before from old) o
	where o.before < $8::bigint and o.last_audit_seq = (select x.last_audit_seq from courier.job_executions x where x.id = o.id)
), trail as (
	delete from courier.trail t where t.ctid = any(array(select x.ctid from (
		select 'file' as key,
\ir ../trail/name.inc.sql
			as value, s.execution_id, s.seq
		from courier.execution_history s cross join lateral (
			select j.value ->> 'path'::text as path from json_array_elements(s.files::json) j
			union all
			select j.value from json_array_elements_text(s.item_labels::json) j
		) f
		where s.execution_id = any(array(select part.id from part)) and (s.files is not null or s.item_labels is not null)
		union
		select l.key, l.value, e.id, 0
		from courier.job_executions e cross join lateral json_each_text(e.options::json -> 'labels'::text) l
		where e.id = any(array(select part.id from part)) and e.options is not null
	) d join courier.trail x on x.key = d.key and x.value = d.value and x.execution_id = d.execution_id and x.seq = d.seq))
), history as (
	delete from courier.execution_history h where h.execution_id = any(array(select part.id from part))
), gone as (
	delete from courier.job_executions e where e.id = any(array(select part.id from part))
	returning e.id
)
select count(*), coalesce(max(gone.id::text collate "C"), '') from gone
