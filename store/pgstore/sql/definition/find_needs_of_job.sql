-- Something that needs a job: what it is, its id or name, and its state. An execution that has
-- not ended, one of a chain that has not ended and has the job as a member, or another job that
-- depends on it. $1 definition of the job. The executions are looked up by their states, of which
-- few have not ended.
with begun as materialized (
	select e.id, e.definition_id, e.state from courier.job_executions e where e.state in ('created', 'paused')
), running as materialized (
	select e.id, e.definition_id, e.state from courier.job_executions e where e.state = 'running'
), queued as materialized (
	select e.id, e.definition_id, e.state from courier.job_executions e where e.state = 'queued' and e.waits_for is null
), waiting as materialized (
	select e.id, e.definition_id, e.state from courier.job_executions e where e.state = 'queued' and e.waits_for is not null
), chains as materialized (
	select c.id, c.state from courier.chain_executions c where c.state in ('pending', 'running', 'paused')
)
select n.what, n.id, n.state from (
	select 1 as rank, 'execution' as what, o.id::text as id, o.state from (select * from begun union all select * from running union all select * from queued union all select * from waiting) o where o.definition_id = $1::int
	union all
	select 2, 'chain execution', c.id::text, c.state from chains c
	where exists (select from courier.chain_members m where m.chain_execution_id = c.id and m.definition_id = $1::int)
	union all
	select 3, 'job', d.name, '' from courier.job_dependencies j join courier.job_definitions d on d.id = j.definition_id
	where j.upstream_id = $1::int and j.definition_id <> $1::int
) n
order by n.rank, n.id limit 1
