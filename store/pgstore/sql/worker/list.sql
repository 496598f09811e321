-- The workers that have claimed within $1 microseconds, or hold a lease that has not
-- ended. $2 executions that were running, $3 since when all others that are running were
-- claimed, $4 at most how many.
select w.name, w.workspace, w.queues, w.step_types, w.slots, w.version, w.started_at, w.seen_at, w.draining
from courier.workers w
where
\ir present.inc.sql
order by w.name limit $4::bigint
