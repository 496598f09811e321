-- Chain executions. $1 their ids.
select
\ir columns.inc.sql
	, c.params
from courier.chain_executions c join courier.job_definitions d on d.id = c.definition_id
where c.id = any($1::text[]::uuid[])
order by c.id desc
