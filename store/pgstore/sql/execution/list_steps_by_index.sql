-- The step executions of an execution that an index of step_executions finds: those of a
-- step in an attempt of the execution, those that were not completed, or those with which
-- an item failed. They are in the order of the audit, because the attempts of the
-- execution are. $1 execution, $2 the
-- number before the first, $3 at most how many, $4 with details, $5 with outputs and
-- files; the filter has the rest.
\set details $4::bool
\set values $5::bool
select
\ir step_columns.inc.sql
from courier.step_executions s
where s.execution_id = $1::text::uuid and s.seq > $2::bigint :filter
order by s.execution_attempt, s.seq
limit $3::bigint
