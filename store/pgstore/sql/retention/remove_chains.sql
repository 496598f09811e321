-- Removes chain executions that have ended and whose members have no execution left, or
-- never had one and are too old. It looks at some, in the order of their ids, and skips
-- those that another statement has locked. Returned are the last one that it looked at
-- (empty: there was none) and how many were removed.
--
-- $1 the chain execution before the first, $2 at most how many, $3 the age in
-- microseconds at which those without executions are removed (0: never), $4 whether
-- failed ones are removed.
with clock as materialized (
	select clock_timestamp() as now
), part as materialized (
	select c.id from courier.chain_executions c where c.id > $1::text::uuid order by c.id limit $2::bigint
), old as materialized (
	select c.id from clock, part join courier.chain_executions c on c.id = part.id
	where (c.state in ('completed', 'cancelled') or c.state = 'failed' and $4::bool)
		and (c.member_states ~ '[cfx]' or $3::bigint > 0 and c.ended_at <= clock.now - $3::bigint::float8 * interval '1 microsecond')
		and not exists (select from courier.chain_members m join courier.job_executions e on e.id = m.execution_id where m.chain_execution_id = c.id)
	for update of c skip locked
), members as (
	delete from courier.chain_members m where m.chain_execution_id = any(array(select old.id from old))
), gone as (
	delete from courier.chain_executions c where c.id = any(array(select old.id from old))
	returning c.id
)
select coalesce(max(part.id::text collate "C"), ''), (select count(*) from gone) from part
