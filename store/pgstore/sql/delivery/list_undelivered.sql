-- A page of events that have not been delivered. $1 subscription (empty: all), $2 state
-- (empty: all), after: $3 subscription (empty: from the first), $4 execution, $5 seq;
-- $6 at most how many.
select s.name, o.execution_id::text, o.seq, o.event, o.job, o.chain, o.version, o.at, o.step, o.step_id, o.step_type, o.iteration, o.step_attempt,
	o.bytes, o.reason, o.error, o.by, o.event_count, o.more_events, o.event_name, o.payload, o.attempts, coalesce(o.last_error, ''), o.due_at, o.state
from courier.outbox o join courier.subscriptions s on s.id = o.subscription_id
where ($1::text = '' or s.name = $1::text)
	and ($2::text = '' or (o.state = 'failed') = ($2::text = 'failed'))
	and ($3::text = '' or (s.name, o.execution_id, o.seq) > ($3::text, $4::text::uuid, $5::bigint))
order by s.name, o.execution_id, o.seq limit $6::bigint
