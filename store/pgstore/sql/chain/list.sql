-- Chain executions, newest first, without their parameters. $1 at most how many; the filter
-- has the rest.
select
\ir columns.inc.sql
	, null::text
from courier.chain_executions c join courier.job_definitions d on d.id = c.definition_id
where true /* filter */
order by c.id desc
limit $1::bigint
