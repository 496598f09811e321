-- A page of the journal, the newest entries first. $1 the number before which it begins, $2
-- at most how many; the filter has the rest.
select j.id, j.at, j.by, j.via, j.verb, j.kind, j.name, j.job, j.was, j.now, coalesce(j.execution_id::text, ''), j.reason, j.outcome, coalesce(j.of, 0)
from courier.journal j
where j.id < $1::bigint /* filter */
order by j.id desc
limit $2::bigint
