-- Removes chain executions that have ended and of whose members no execution is
-- left: all were removed, or there never was one and the time is over. It looks at
-- some, in the order of their ids. Those that somebody is changing are passed
-- over. Returned are the last one that it looked at (empty: there is none) and how
-- many are gone.
--
-- $1 after which chain execution, $2 at most how many, $3 for how long those without
-- executions are kept, in microseconds (0: for ever), $4 whether failed ones are removed.
with clock as materialized (
	select clock_timestamp() as now
), part as materialized (
	select c.id from courier.chain_executions c where c.id > $1::text::uuid order by c.id limit $2::bigint
), old as materialized (
	select c.id from clock, part join courier.chain_executions c on c.id = part.id
	where (c.state in ('completed', 'cancelled') or c.state = 'failed' and $4::bool)
		and (c.member_states ~ '[cfx]' or $3::bigint > 0 and c.ended_at <= clock.now - $3::bigint * interval '1 microsecond')
		and not exists (select from courier.chain_members m join courier.job_executions e on e.id = m.execution_id where m.chain_execution_id = c.id)
	for update of c skip locked
), members as (
	delete from courier.chain_members m where m.chain_execution_id = any(array(select old.id from old))
), gone as (
	delete from courier.chain_executions c where c.id = any(array(select old.id from old))
	returning c.id
)
select coalesce(max(part.id::text collate "C"), ''), (select count(*) from gone) from part
