-- The step executions of an execution, in the order of the audit. $1 execution, $2 the
-- number before the first, $3 at most how many, $4 with details, $5 with outputs and
-- files; the filter has the rest.
select
\ir step_columns.inc.sql
	, case when $5::bool then s.outputs end, case when $5::bool then s.files end,
	case when $4::bool then s.stack end, case when $4::bool then s.log end, case when $4::bool then s.events end
from courier.execution_history s
where s.execution_id = $1::text::uuid and s.seq > $2::bigint and s.step is not null /* filter */
order by s.seq
limit $3::bigint
