-- Counts of executions as JSON, as store.Census has them. No count reads more rows than
-- $1. $2 at most how many queues, $3 and $4 as store.QueuesMost and store.MinQueueMost.
-- Each part follows an index from its start.
with recursive clock as materialized (
	select clock_timestamp() as now
), run as materialized (
	select e.definition_id, e.limit_keys, e.lease_expires_at from courier.job_executions e
	where e.state = 'running' order by e.id limit $1::bigint
), level as (
	-- The queues and their priorities: within one, what is due comes first.
	(
		select e.queue, -(e.priority::integer) as urgency, 1 as n from courier.job_executions e where e.state = 'queued' and e.waits_for is null
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1
	)
	union all
	select f.queue, f.urgency, l.n + 1 from level l cross join lateral (
		select e.queue, -(e.priority::integer) as urgency from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and (e.queue, -(e.priority::integer)) > (l.queue, l.urgency)
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit 1
	) f
	where l.n < 10 * $2::bigint
), queue as materialized (
	select l.queue from level l group by l.queue order by l.queue limit $2::bigint
), share as materialized (
	select least($1::bigint, greatest($4::bigint, $3::bigint * $1::bigint / greatest(1, count(*)))) as most from queue
), queued as materialized (
	select q.queue, c.n from queue q cross join lateral (
		-- The share is no more than $1, but with it alone the planner expects many rows.
		select count(*) as n from (
			select from (
				select from courier.job_executions e where e.state = 'queued' and e.waits_for is null and e.queue = q.queue
				order by e.queue, -(e.priority::integer), e.due_at, e.id limit $1::bigint
			) e limit (select share.most from share)
		) e
	) c
), due as materialized (
	select distinct on (d.queue) d.queue, d.id, d.due_at, d.definition_id from clock, level l cross join lateral (
		select e.queue, e.id, e.due_at, e.definition_id from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= clock.now
		order by e.due_at, e.id limit 1
	) d
	order by d.queue, d.due_at, d.id
)
select pg_catalog.json_build_object(
	'at', to_char(timezone('UTC', clock.now), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
	'queues', coalesce((
		select pg_catalog.json_agg(pg_catalog.json_build_object('queue', q.queue, 'queued', q.n, 'oldest', d.id, 'job', o.name, 'due_at', to_char(timezone('UTC', d.due_at), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) order by q.queue)
		from queued q left join due d on d.queue = q.queue left join courier.job_definitions o on o.id = d.definition_id
	), '[]'::json),
	'queue_count_limit', (select share.most from share),
	'running', (select count(*) from run),
	'lost', (select count(*) from run where run.lease_expires_at <= clock.now),
	'jobs', coalesce((
		select pg_catalog.json_agg(pg_catalog.json_build_object('name', j.name, 'count', j.n) order by j.name)
		from (select d.name, count(*) as n from run join courier.job_definitions d on d.id = run.definition_id group by d.name) j
	), '[]'::json),
	'keys', coalesce((
		select pg_catalog.json_agg(pg_catalog.json_build_object('name', k.name, 'count', k.n) order by k.name)
		from (select u.name collate "C" as name, count(*) as n from run cross join lateral pg_catalog.unnest(run.limit_keys) as u (name) group by 1) k
	), '[]'::json),
	'created', (select count(*) from (select from courier.job_executions e where e.state = 'created' order by e.id limit $1::bigint) e),
	'waiting', (select count(*) from (select from courier.job_executions e where e.state = 'queued' and e.waits_for is not null order by e.id limit $1::bigint) e),
	'paused', (select count(*) from (select from courier.job_executions e where e.state = 'paused' order by e.id limit $1::bigint) e),
	'failed', (select count(*) from (select from courier.job_executions e where e.state = 'failed' order by e.id limit $1::bigint) e)
)::text
from clock
