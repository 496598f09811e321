-- Leases executions where limits may be in force: those whose lease has ended, then
-- queued ones. The lock of sql/claim/lock_limits.sql is held, so no other claim counts.
--
-- Executions of full jobs and keys are left out before anything is sorted. Of the first
-- ones that are left, each is counted in its job and its keys together with all before
-- it, taken or not. That is too strict where one before it was not taken. The list is
-- cut before the first row for which that makes a difference; the next claim takes the
-- rest. The first row is always taken.
\ir expired_leases.inc.sql
, run as materialized (
	select e.definition_id, e.limit_keys from courier.job_executions e where e.state = 'running'
), job_run as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(definition_id::text, n), '{}') as n
	from (select definition_id, count(*) as n from run group by 1) r
), job_most as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(d.id::text, s.most), '{}') as most
	from setting s join courier.job_definitions d on d.kind = 'job' and d.name = substr(s.scope, 6)
	where starts_with(s.scope, '.job:')
), pattern as materialized (
	-- A limit for each key that begins so, and has none of its own.
	select substr(s.scope, 6, length(s.scope) - 6) as prefix, s.most from setting s where starts_with(s.scope, '.key:') and right(s.scope, 1) = '*'
), key_set as materialized (
	select substr(s.scope, 6) as key, s.most from setting s where starts_with(s.scope, '.key:') and right(s.scope, 1) <> '*'
), key_most as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(key, most), '{}') as most from key_set
), key_run as materialized (
	select k.key, count(*) as n from run cross join lateral pg_catalog.unnest(run.limit_keys) as k (key)
	where exists (select from key_set) or exists (select from pattern) group by k.key
), key_free as materialized (
	select r.key, m.most - r.n as free
	from key_run r cross join lateral (select
\ir key_limit.inc.sql
	) m
	where m.most > 0
), key_full as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(key, 0), '{}') as keys from key_free where free <= 0
), room as materialized (
	select case when rule.global = 0 then 9223372036854775807 else rule.global - (select count(*) from run) end as free from rule
), first_any as materialized (
	select c.* from arg, room, job_run, job_most, level l cross join lateral (
		select e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.definition_id, e.limit_keys,
			coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) as concurrency_limit
		from courier.job_executions e
		where e.state = 'queued' and e.waits_for is null and e.queue = l.queue and -(e.priority::integer) = l.urgency and e.due_at <= arg.now
			and (e.due_at, e.id) >= (l.due_at, l.id)
			and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
			and (coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) < 1
				or coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) > coalesce((job_run.n ->> e.definition_id::text)::bigint, 0))
			and not (select keys from key_full) ?| e.limit_keys
		order by e.due_at, e.id limit 2 * (select most from arg) + 50
	) c
	where l.urgency is not null and room.free > 0
	order by c.urgency, c.due_at, c.id limit 2 * (select most from arg) + 50
), first_only as materialized (
	select e.id, e.state_since, -(e.priority::integer) as urgency, e.due_at, e.definition_id, e.limit_keys,
		coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) as concurrency_limit
	from courier.job_executions e, arg, room, job_run, job_most
	where (select restricted from arg) and room.free > 0 and e.id = any((select ids from arg)::uuid[]) and e.state = 'queued' and e.waits_for is null and e.queue = any((select queues from arg)::text[]) and e.due_at <= arg.now
		and e.step_types operator(pg_catalog.<@) (select types from arg) and (e.workspace = '' or e.workspace = (select workspace from arg))
		and (coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) < 1
			or coalesce((job_most.most ->> e.definition_id::text)::bigint, e.concurrency_limit) > coalesce((job_run.n ->> e.definition_id::text)::bigint, 0))
		and not (select keys from key_full) ?| e.limit_keys
	order by 3, 4, 1 limit 2 * (select most from arg) + 50
), first as materialized (
	select f.*, row_number() over (order by urgency, due_at, id) as ord,
		case when concurrency_limit > 0 then concurrency_limit - coalesce((job_run.n ->> definition_id::text)::bigint, 0) end as job_free,
		row_number() over (partition by definition_id order by urgency, due_at, id) as job_rank
	from (select * from first_any union all select * from first_only) f, job_run
), key_first as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(k.key, 0), '{}') as keys from first f cross join lateral pg_catalog.unnest(f.limit_keys) as k (key)
), key_room as materialized (
	select (
		select coalesce(pg_catalog.jsonb_object_agg(r.key, m.most), '{}')
		from jsonb_object_keys((select keys from key_first)) as r (key) cross join lateral (select
\ir key_limit.inc.sql
		) m
		where m.most > 0
	) || (
		select coalesce(pg_catalog.jsonb_object_agg(f.key, f.free), '{}') from key_free f where (select keys from key_first) ? f.key
	) as free
), key_rank as materialized (
	select f.id, n.key, ((select free from key_room) ->> n.key)::bigint as free, f.ord, row_number() over (partition by n.key order by f.ord) as rank
	from first f cross join lateral pg_catalog.unnest(f.limit_keys) as n (key) where (select free from key_room) ? n.key
), key_over as materialized (
	select coalesce(pg_catalog.jsonb_object_agg(distinct r.id::text, 0), '{}') as ids from key_rank r where r.rank > r.free
), judged as materialized (
	select f.*, coalesce(f.job_rank <= f.job_free, true) as job_ok, not (select ids from key_over) ? f.id::text as keys_ok
	from first f
), key_taken as materialized (
	select r.id, bool_or(r.before >= r.free) as filled
	from (
		select r.id, r.free, count(*) filter (where j.job_ok and j.keys_ok) over (partition by r.key order by r.ord) as before
		from key_rank r join judged j on j.id = r.id
	) r group by r.id
), settled as materialized (
	select j.*, j.job_ok and j.keys_ok as taken,
		coalesce(count(*) filter (where j.job_ok and j.keys_ok) over (partition by j.definition_id order by j.ord) >= j.job_free, false)
			or coalesce((select k.filled from key_taken k where k.id = j.id), false) as filled
	from judged j
), cut as materialized (
	select coalesce(min(ord), 9223372036854775807) as at from settled where not taken and not filled
), ready_info as materialized (
	select (rule.global <> 0 or rule.scoped or exists (select from first where concurrency_limit > 0))
			and (room.free <= 0 or exists (select from first)) as limited,
		cut.at < 9223372036854775807 or (select count(*) from first) >= 2 * (select most from arg) + 50 as more,
		exists (select from level l, arg where l.urgency is not null and l.due_at <= arg.now)
			and (exists (select from settled where not taken) or (select count(*) from first) > room.free
				or exists (select from run) and not exists (select from first)) as held
	from rule, cut, room
), ready as materialized (
	select s.id, s.state_since, s.urgency, s.due_at from settled s, cut
	where s.taken and s.ord < cut.at
	order by s.ord limit (select least(greatest(0, (select most from arg) - (select count(*) from lost)), greatest(0, room.free)) from room)
)
\ir take_leases.inc.sql
