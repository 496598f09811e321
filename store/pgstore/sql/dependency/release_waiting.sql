-- Releases the waiting executions whose dependencies are all met in one snapshot.
-- Executions that another statement has locked are skipped: a request or another release
-- is at work on them. Returned are the queues of the released ones.
with waiting as materialized (
	select e.id, e.waits_for from courier.job_executions e where e.state = 'queued' and e.waits_for is not null
), term as materialized (
	select distinct pg_catalog.unnest(w.waits_for) as term from waiting w
), met as materialized (
	select term.term from term
	join courier.job_definitions d on d.kind = 'job' and d.name = substr(term.term, 2)
	cross join lateral (
		select x.state from courier.job_executions x
		where x.definition_id = d.id and x.has_dependents
		order by x.created_at desc, x.id desc limit 1
	) latest
	where latest.state = 'completed'
		or latest.state = 'failed' and left(term.term, 1) in ('f', 'a')
		or latest.state = 'cancelled' and left(term.term, 1) = 'a'
), ready as materialized (
	select e.id from courier.job_executions e
	where e.state = 'queued' and e.waits_for is not null
		and e.id = any(array(select w.id from waiting w where w.waits_for operator(pg_catalog.<@) array(select met.term from met)))
	order by e.id
	for update skip locked
), gone as (
	update courier.job_executions e set
		waits_for = null,
		due_at = greatest(e.due_at, clock_timestamp())
	where e.id = any(array(select ready.id from ready))
	returning e.queue
)
select distinct gone.queue from gone
