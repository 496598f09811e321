-- The jobs that have executions to be removed: of each the first execution, and the last
-- ones that can be too old and too many. Ids are in the order of creation by the clocks
-- of those who created them; ages are by the clock of the database.
--
-- $1 jobs with a rule of their own; of each $2 the age in microseconds, $3 the count,
-- $4 whether failed ones are removed; $5, $6 and $7 the same for all other jobs. 0 is no
-- limit.
with clock as materialized (
	select clock_timestamp() as now
), rule as (
	select d.id, d.name, coalesce(r.age, $5::bigint) as age, coalesce(r.most, $6::bigint) as most, coalesce(r.failed, $7::bool) as failed
	from courier.job_definitions d
	left join unnest($1::text[], $2::bigint[], $3::bigint[], $4::bool[]) as r (name, age, most, failed) on r.name = d.name
	where d.kind = 'job'
), bound as materialized (
	select rule.id, rule.name, rule.age, rule.failed, clock.now - rule.age::float8 * interval '1 microsecond' as ended,
		case when rule.age > 0 then (lpad(to_hex(greatest(0, extract(epoch from clock.now) * 1000::numeric - (rule.age / 1000)::numeric)::bigint + 1), 12, '0')
			|| repeat('0', 20))::uuid else '00000000-0000-0000-0000-000000000000' end as old,
		coalesce(case when rule.most > 0 then (
			select e.id from courier.job_executions e
			where e.definition_id = rule.id and (e.state in ('completed', 'cancelled') or e.state = 'failed' and rule.failed)
			order by e.id desc offset rule.most limit 1
		) end, '00000000-0000-0000-0000-000000000000') as many
	from rule, clock where rule.age > 0 or rule.most > 0
)
select b.id, b.name, b.age, b.failed, f.id::text, b.old::text, b.many::text
from bound b cross join lateral (
	select e.id from courier.job_executions e
	where e.definition_id = b.id and e.id <= greatest(b.old, b.many)
		and (e.state in ('completed', 'cancelled') or e.state = 'failed' and b.failed)
		and
\ir holds_none.inc.sql
		and (e.ended_at <= b.ended and b.age > 0 or e.id <= b.many)
	order by e.id limit 1
) f
order by b.id
