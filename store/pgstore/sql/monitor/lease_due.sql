-- Leases the monitors whose directories have to be polled. $1 listers, $2 at most how
-- many, $3 lease in microseconds, $4 names of monitors that are polled early.
--
-- Monitors that another statement has locked are skipped. Each row has the time and the
-- microseconds until the next monitor is due (0: none is). If no monitor is due there is
-- one row with these alone.
with arg as materialized (
	select clock_timestamp() as now, $2::bigint as most, $3::bigint::float8 * interval '1 microsecond' as lease
), due as materialized (
	select m.name from courier.monitors m
	where m.due_at is not null and (m.due_at <= (select arg.now from arg) or m.name = any($4::text[]))
		and (m.leased_until is null or m.leased_until <= (select arg.now from arg)) and m.lister = any($1::text[])
	order by m.due_at, m.name limit (select arg.most + 1 from arg)
	for update skip locked
), chosen as materialized (
	select due.name from due limit (select arg.most from arg)
), taken as (
	update courier.monitors m set leased_until = arg.now + arg.lease
	from arg where m.name = any(array(select chosen.name from chosen))
	returning m.name, m.lister, m.kind, m.target, m.body, m.saved_at, m.revision, m.status, m.reason, m.health, m.due_at
), later as materialized (
	select min(greatest(m.due_at, m.leased_until)) as at from courier.monitors m
	where m.due_at is not null and greatest(m.due_at, m.leased_until) > (select arg.now from arg) and m.lister = any($1::text[])
		and m.name <> all(array(select due.name from due))
), next as materialized (
	select arg.now, case when (select count(*) from due) > arg.most then 1
		else coalesce((extract(epoch from later.at - arg.now) * 1000000::numeric)::bigint, 0) end as wait
	from arg, later
)
select next.now, next.wait, t.name, t.lister, t.kind, t.target, t.body, t.saved_at, t.revision, t.status, t.reason, t.health, t.due_at
from next left join taken t on true
order by t.due_at, t.name
