-- Keeps the deadlines of executions that were created in this transaction. $1 executions; in
-- microseconds, 0 for none, $2 the longest duration from when it may begin, and from its
-- creation $3 the time in which it is expected to end and $4 that in which it has to begin.
insert into courier.execution_deadlines (due_at, execution_id, reason)
select d.at + d.us::float8 * interval '1 microsecond', d.id, d.reason
from unnest($1::text[]::uuid[], $2::bigint[], $3::bigint[], $4::bigint[]) as g (id, max_duration, expected_by, expires)
cross join lateral (select x.created_at, x.due_at from courier.job_executions x where x.id = g.id limit 1) e
cross join lateral (values (e.due_at, g.max_duration, g.id, 'max_duration'), (e.created_at, g.expected_by, g.id, 'expected_by'), (e.created_at, g.expires, g.id, 'expired')) as d (at, us, id, reason)
where d.us > 0
