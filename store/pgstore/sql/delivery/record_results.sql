-- Records the results of deliveries. $1 subscriptions, $2 executions, $3 seqs,
-- $4 tokens, $5 results, $6 delays in microseconds, $7 errors, $8 for how many
-- microseconds failed deliveries are kept. A delivery whose lease has passed to another
-- worker is not changed.
with clock as materialized (
	select clock_timestamp() as now
), said as materialized (
	select s.id as subscription_id, v.* from unnest($1::text[], $2::text[]::uuid[], $3::bigint[], $4::text[]::uuid[], $5::text[], $6::bigint[], $7::text[])
		as v (name, execution_id, seq, token, verdict, delay, error)
	join courier.subscriptions s on s.name = v.name
), mine as materialized (
	select v.* from said v join courier.outbox o
		on o.subscription_id = v.subscription_id and o.execution_id = v.execution_id and o.seq = v.seq and o.lease_token = v.token
	order by v.subscription_id, v.execution_id, v.seq
	for update of o
), delivered as (
	delete from courier.outbox o using mine v
	where v.verdict = 'delivered' and o.subscription_id = v.subscription_id and o.execution_id = v.execution_id and o.seq = v.seq
), rest as (
	update courier.outbox o set
		lease_token = null, last_error = v.error,
		state = case when v.verdict in ('retry', 'returned') then 'pending' else 'failed' end,
		attempts = case when v.verdict = 'returned' then o.attempts - 1 else o.attempts end,
		due_at = clock.now + case when v.verdict = 'retry' then v.delay else 0 end::float8 * interval '1 microsecond'
	from mine v, clock
	where v.verdict <> 'delivered' and o.subscription_id = v.subscription_id and o.execution_id = v.execution_id and o.seq = v.seq
), disabled as (
	update courier.subscriptions s set disabled = true, reason = v.error, disabled_at = coalesce(s.disabled_at, clock.now)
	from (select v.subscription_id, max(v.error) as error from mine v where v.verdict = 'endpoint_gone' group by 1) v, clock
	where s.id = v.subscription_id
)
delete from courier.outbox o using clock
where o.state = 'failed' and o.due_at < clock.now - $8::bigint::float8 * interval '1 microsecond'
	and o.subscription_id = any(array(select subscription_id from said where verdict <> 'delivered'))
