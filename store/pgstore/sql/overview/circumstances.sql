-- That on which it depends whether an execution goes on, in one snapshot: the execution,
-- then the rest as JSON; see store.Circumstances. $1 execution, $2 up to how many
-- executions are counted, $3 the limit of all executions where none is set, $4 workers are
-- present for so many microseconds after a claim, $5 at most how many workers.
with clock as materialized (
	select clock_timestamp() as now
), x as materialized (
	select e.* from courier.job_executions e where e.id = $1::text::uuid
), run as materialized (
	select e.id, e.definition_id, e.limit_keys, e.worker, e.lease_expires_at from courier.job_executions e
	where e.state = 'running' order by e.id limit $2::bigint
), scope as materialized (
	select '' as scope, 0 as ord, null::text as key, null::int as definition_id, coalesce((
			select s.value::bigint from courier.system_settings s where s.key = 'job.concurrency_limit'
		), $3::bigint) as most
	from x
	union all
	select 'job:' || d.name, 1, null, d.id, coalesce((
			select s.value::bigint from courier.system_settings s where s.key = 'job.concurrency_limit.job:' || d.name
		), x.concurrency_limit)
	from x join courier.job_definitions d on d.id = x.definition_id
	union all
	select 'key:' || k.key, 1 + k.ord, k.key, null, coalesce((
			select s.value::bigint from courier.system_settings s where s.key = 'job.concurrency_limit.key:' || k.key and right(s.key, 1) <> '*'
		), (
			select s.value::bigint from courier.system_settings s
			where starts_with(s.key, 'job.concurrency_limit.key:') and right(s.key, 1) = '*'
				and starts_with('job.concurrency_limit.key:' || k.key, left(s.key, -1))
			order by length(s.key) desc limit 1
		), 0)
	from x cross join lateral pg_catalog.unnest(x.limit_keys) with ordinality as k (key, ord)
), limits as materialized (
	select s.scope, s.ord, s.most, u.n, h.job, h.id
	from scope s
	cross join lateral (
		select count(*) as n from run r where (s.key is null or s.key = any(r.limit_keys)) and (s.definition_id is null or s.definition_id = r.definition_id)
	) u
	left join lateral (
		select r.id, d.name as job from run r join courier.job_definitions d on d.id = r.definition_id
		where (s.key is null or s.key = any(r.limit_keys)) and (s.definition_id is null or s.definition_id = r.definition_id)
			and r.id <> (select x.id from x)
		order by r.id limit 1
	) h on true
	where s.most > 0
), before as materialized (
	-- Those that are not due yet come between the others, and are read too.
	select count(*) filter (where b.due_at <= (select clock.now from clock)) as n
	from x cross join lateral (
		-- The walk through the index has only a beginning. With both bounds the planner
		-- expects few rows, reads all that there are, and sorts them.
		select e.queue, e.due_at, -(e.priority::integer) as urgency, e.id from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue >= x.queue
		order by e.queue, -(e.priority::integer), e.due_at, e.id limit $2::bigint
	) b
	where x.state = 'queued' and x.waits_for is null and b.queue = x.queue and (b.urgency, b.due_at, b.id) < (-(x.priority::integer), x.due_at, x.id)
), present as materialized (
	select w.name, w.workspace, w.queues, w.step_types, w.slots, w.version, w.started_at, w.seen_at, w.draining from courier.workers w, clock
	where w.seen_at > clock.now - $4::bigint::float8 * interval '1 microsecond'
		or w.name in (select run.worker from run where run.lease_expires_at > (select clock.now from clock))
	order by w.name limit $5::bigint
)
select
\ir ../execution/read_columns.inc.sql
	, clock.now, e.step_types, before.n,
	coalesce((select pg_catalog.json_agg(pg_catalog.json_build_object('Scope', l.scope, 'Limit', l.most, 'Running', l.n, 'Job', coalesce(l.job, ''), 'Holder', coalesce(l.id::text, ''))
		order by l.ord) from limits l), '[]'::json)::text,
	coalesce((select pg_catalog.json_agg(pg_catalog.json_build_object('name', p.name, 'workspace', p.workspace, 'queues', p.queues, 'step_types', p.step_types,
			'slots', p.slots, 'version', p.version, 'started_at', p.started_at, 'seen_at', p.seen_at, 'draining', p.draining)
		order by p.name) from present p), '[]'::json)::text,
	exists (
		select from courier.chain_members m join courier.chain_executions c on c.id = m.chain_execution_id
		where m.chain_execution_id = e.chain_execution_id and m.execution_id = e.id and substr(c.member_states, m.ordinal + 1, 1) = 'U'
	)
from x e cross join clock cross join before
