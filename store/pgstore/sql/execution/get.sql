-- An execution. $1 id.
select
\ir read_columns.inc.sql
from courier.job_executions e
where e.id = $1::text::uuid
