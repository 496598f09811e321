-- Leases executions where no limit is in force: those whose lease has ended, then queued
-- ones. If a limit may be in force it leases no queued ones and says so.
\ir expired_leases.inc.sql
, first_any as materialized (
	select c.* from arg, level l cross join lateral (
		select e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.concurrency_limit from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= arg.now
			and (e.due_at, e.id) >= (l.due_at, l.id)
			and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
		order by e.due_at, e.id limit (select most from arg)
		for update of e skip locked
	) c
	where l.urgency is not null
	order by c.urgency, c.due_at, c.id limit (select most from arg)
), first_only as materialized (
	select e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.concurrency_limit from courier.job_executions e, arg
	where (select restricted from arg) and e.id = any((select ids from arg)::uuid[]) and e.state = 'queued' and e.waits_for is null and e.queue = any((select queues from arg)::text[]) and e.due_at <= arg.now
		and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
	order by 3, 4, 1 limit (select most from arg)
	for update of e skip locked
), first as materialized (
	select * from first_any union all select * from first_only
), ready_info as materialized (
	select exists (select from first, rule where rule.global <> 0 or rule.scoped or first.concurrency_limit > 0) as limited, false as more, false as held
), ready as materialized (
	select * from first where not (select limited from ready_info)
)
\ir take_leases.inc.sql
