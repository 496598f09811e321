-- Executions, newest first. What stands for "filter" below narrows them.
-- $1 at most, and what the filters say.
select
\ir columns.inc.sql
from courier.job_executions e
where true :filter
order by e.id desc
limit $1::bigint
