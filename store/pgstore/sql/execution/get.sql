-- An execution. $1 which.
select
\ir columns.inc.sql
from courier.job_executions e
where e.id = $1::text::uuid
