-- Removes a schedule. $1 name. Returned is a row if it existed.
with job as (
	delete from courier.job_schedules s where s.name = $1::text returning s.name
), chain as (
	delete from courier.chain_schedules s where s.name = $1::text returning s.name
)
select name from job union all select name from chain
