-- The executions that exist under an id or, for their job, an idempotency key. $1 ids,
-- $2 jobs, $3 keys. Returned are the executions and the ordinals of the parameters.
select
\ir ../execution/read_columns.inc.sql
	, n.ord
from unnest($1::text[]::uuid[], $2::text[], $3::text[]) with ordinality as n (id, job, key, ord)
cross join lateral (
	select u.* from (
		select 1 as rank, x.* from courier.job_executions x where x.id = n.id
		union all
		select 2 as rank, x.* from courier.job_executions x join courier.job_definitions d on d.id = x.definition_id
		where n.key <> '' and d.kind = 'job' and d.name = n.job and x.idempotency_key = n.key
	) u order by u.rank limit 1
) e
