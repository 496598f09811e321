-- Leases the expectations that have to be looked at, with all that a look needs. $1 at most how
-- many, $2 lease in microseconds, $3 at most how many files of each.
--
-- Expectations that another statement has locked are skipped. Each row has the time and the
-- microseconds until the next expectation is due (0: none is). If none is due there is one row
-- with these alone. Instants in JSON are microseconds since 1970.
with arg as materialized (
	select clock_timestamp() as now, $1::bigint as most, $2::bigint::float8 * interval '1 microsecond' as lease
), due as materialized (
	select e.name from courier.expectations e
	where e.due_at <= (select arg.now from arg) and (e.leased_until is null or e.leased_until <= (select arg.now from arg))
	order by e.due_at, e.name limit (select arg.most + 1 from arg)
	for update skip locked
), chosen as materialized (
	select due.name from due limit (select arg.most from arg)
), taken as (
	update courier.expectations e set leased_until = arg.now + arg.lease
	from arg where e.name = any(array(select chosen.name from chosen))
	returning e.name, e.monitor, e.job, e.prefix, e.body, e.saved_at, e.revision, e.seen_from, e.arrivals_from, e.memory, e.due_at
), later as materialized (
	select min(greatest(e.due_at, e.leased_until)) as at from courier.expectations e
	where e.due_at is not null and greatest(e.due_at, e.leased_until) > (select arg.now from arg)
		and e.name <> all(array(select due.name from due))
), next as materialized (
	select arg.now, case when (select count(*) from due) > arg.most then 1
		else coalesce((extract(epoch from later.at - arg.now) * 1000000::numeric)::bigint, 0) end as wait
	from arg, later
)
select next.now, next.wait, t.name, t.monitor, t.job, t.prefix, t.body, t.saved_at, t.revision, t.seen_from, to_char(t.arrivals_from::timestamp, 'YYYY-MM-DD'), t.memory, t.due_at,
	d.days, m.body, m.health, f.files, r.received
from next left join taken t on true
left join lateral (
	select pg_catalog.json_agg(pg_catalog.json_build_object('id', a.id, 'day', a.day, 'state', a.state, 'body', a.body) order by a.day)::text as days
	from courier.arrivals a where a.expectation = t.name and a.day >= t.arrivals_from
) d on true
left join courier.monitors m on m.name = t.monitor and t.monitor <> ''
left join lateral (
	select pg_catalog.json_agg(pg_catalog.json_build_object('name', s.name, 'size', s.size, 'modified', (extract(epoch from s.modified_at) * 1000000::numeric)::bigint,
		'since', (extract(epoch from s.unchanged_since) * 1000000::numeric)::bigint, 'done', s.has_done_file, 'gone', (extract(epoch from s.missing_since) * 1000000::numeric)::bigint,
		'appeared', s.appearances, 'handed', s.handed_appearance, 'execution', s.execution_id) order by s.unchanged_since, s.name)::text as files
	from (
		select f.* from courier.monitor_files f
		where f.monitor = t.monitor and f.unchanged_since >= t.seen_from and starts_with(f.name, t.prefix)
		order by f.unchanged_since, f.name limit $3::bigint
	) s
) f on t.monitor <> ''
left join lateral (
	select pg_catalog.json_agg(pg_catalog.json_build_object('path', s.path, 'size', s.size, 'at', (extract(epoch from s.at) * 1000000::numeric)::bigint,
		'execution', s.execution_id, 'seq', s.seq) order by s.at, s.execution_id, s.seq, s.path)::text as received
	from (
		select f.path, f.size, h.at, h.execution_id, h.seq
		from (select translate(left(t.prefix, 200), 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') as prefix) p
		join courier.trail w on w.key = 'file' and w.value >= p.prefix and w.value < p.prefix || U&'\+10FFFF' and starts_with(w.value, p.prefix)
		cross join lateral (
			select x.at, x.execution_id, x.seq, x.files from courier.execution_history x
			where x.execution_id = w.execution_id and x.seq = w.seq and x.at >= t.seen_from and x.files is not null limit 1
		) h
		join courier.job_executions e on e.id = w.execution_id and e.created_at >= t.seen_from - interval '7 days'
		join courier.job_definitions j on j.id = e.definition_id and j.kind = 'job' and j.name = t.job
		cross join lateral (
			select g.value ->> 'path'::text as path, coalesce((g.value ->> 'size'::text)::bigint, 0) as size
			from json_array_elements(h.files::json) g where (g.value ->> 'received'::text) = 'true'
		) f
		where
\ir ../trail/name.inc.sql
			= w.value
		order by h.at, h.execution_id, h.seq, f.path limit $3::bigint
	) s
) r on t.job <> ''
order by t.due_at, t.name
