-- Keeps the trail of the labels of executions that were created in this transaction.
-- $1 executions.
insert into courier.trail (key, value, execution_id, seq)
select l.key, l.value, e.id, 0
from courier.job_executions e cross join lateral json_each_text(e.options::json -> 'labels'::text) l
where e.id = any($1::text[]::uuid[])
