-- Executions, newest first, without what may be large. $1 at most how many, $2 which fields
-- of only copies are left out; the filter has the rest.
\set result null::text
\set params null::text
\set repairs null::text
\set only_copies (e.only_copies::jsonb-$2::text[])::text
select
\ir read_columns.inc.sql
from courier.job_executions e
where true :filter
order by e.id desc
limit $1::bigint
