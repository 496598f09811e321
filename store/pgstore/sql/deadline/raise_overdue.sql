-- Looks at deadlines that have passed, and keeps the event JobOverdue for executions that
-- have not ended; see notify.OfOverdue. Their rows stay for overview/incidents, and are
-- looked at again every 10 minutes, until the execution has ended for good; the other rows are
-- removed. A deadline by which an execution has to begin raises no event, and is put off for
-- a minute until it has begun or ended, since whoever is told of it may die before it acts.
-- Deadlines that another statement has locked are skipped. $1 at most how many, up to 1000:
-- the literal limit lets the planner expect few.
--
-- Each row has the microseconds until the next deadline (0: there is none). If no execution
-- is overdue there is one row with these alone.
with arg as materialized (
	select clock_timestamp() as now, $1::bigint as most
), passed as materialized (
	select d.ctid as place from courier.execution_deadlines d
	where d.due_at <= (select arg.now from arg)
	order by d.due_at limit 1000
	for update skip locked
), part as materialized (
	select passed.place from passed limit (select arg.most from arg)
), found as materialized (
	select d.ctid as place, d.execution_id, d.reason, d.due_at, d.passed_at, e.version, e.state, e.definition_id, e.chain_execution_id,
		coalesce(case when d.reason = 'expired' then e.started_at is null and e.state in ('created', 'queued', 'paused')
			else e.state in ('created', 'queued', 'running', 'paused') or d.passed_at is not null and e.state = 'failed' end, false) as open
	from courier.execution_deadlines d left join courier.job_executions e on e.id = d.execution_id
	where d.ctid = any(array(select part.place from part))
), again as (
	update courier.execution_deadlines d set passed_at = case when d.reason <> 'expired' then coalesce(d.passed_at, d.due_at) end,
		due_at = (select arg.now from arg) + case when d.reason = 'expired' then interval '1 minute' else interval '10 minutes' end
	where d.ctid = any(array(select f.place from found f where f.open))
), gone as (
	delete from courier.execution_deadlines d where d.ctid = any(array(select f.place from found f where not f.open))
), overdue as materialized (
	select f.execution_id, f.reason, f.due_at, f.version, f.state, j.name as job, coalesce((
			select cd.name from courier.chain_executions c join courier.job_definitions cd on cd.id = c.definition_id where c.id = f.chain_execution_id
		), '') as chain
	from found f join courier.job_definitions j on j.id = f.definition_id
	where f.open and f.passed_at is null
), kept as (
	insert into courier.outbox (subscription_id, execution_id, seq, event, job, chain, version, at, reason, error, state, due_at)
	select s.id, o.execution_id, case o.reason when 'max_duration' then -1 else -2 end, 'JobOverdue', o.job, o.chain, o.version, arg.now, o.reason,
		'the execution is ' || o.state || ', and was expected to end by ' || to_char(timezone('UTC', o.due_at), 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
		case when s.window_us > 0 then 'held' else 'pending' end, arg.now
	from arg cross join (select * from overdue where reason <> 'expired') o
	join courier.subscriptions s on not s.disabled and 'JobOverdue' = any(s.events)
		and (pg_catalog.cardinality(s.jobs) + pg_catalog.cardinality(s.chains) + pg_catalog.cardinality(s.expected) = 0 or o.job = any(s.jobs) or o.chain = any(s.chains))
), next as materialized (
	select case when (select count(*) from part) >= arg.most then 1 else coalesce((extract(epoch from (
			select d.due_at from courier.execution_deadlines d where d.due_at > (select arg.now from arg) and d.passed_at is null order by d.due_at limit 1
		) - arg.now) * 1000000::numeric)::bigint, 0) end as wait, exists (select from overdue o where o.reason = 'expired') as expired
	from arg
)
select case when next.expired and (next.wait = 0 or next.wait > 60000000) then 60000000 else next.wait end, coalesce(o.execution_id::text, ''), o.job, o.version, o.state, o.reason, o.due_at
from next left join overdue o on true
order by o.due_at, o.execution_id, o.reason
