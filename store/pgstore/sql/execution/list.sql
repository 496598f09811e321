-- Executions, newest first, without what may be large. $1 at most how many, $2 which fields
-- of only copies are left out; the filter has the rest.
select
\ir base_columns.inc.sql
, null::text, null::text, (e.only_copies::jsonb - $2::text[])::text, null::text,
greatest(e.state_since, e.current_started_at, (select h.at from courier.execution_history h where h.execution_id = e.id order by h.seq desc limit 1))
from courier.job_executions e
where true /* filter */
order by e.id desc
limit $1::bigint
