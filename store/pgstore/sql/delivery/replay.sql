-- Makes deliveries due that have failed or wait for their next attempt, unless a worker
-- has leased them. $1 subscription, $2 whether all, else $3 executions and $4 seqs.
-- Returned are whether the subscription exists, and how many deliveries became due.
with of as materialized (
	select s.id from courier.subscriptions s where s.name = $1::text
), again as (
	update courier.outbox o set state = 'pending', attempts = 0, due_at = clock_timestamp()
	from of
	where o.subscription_id = of.id
		and (o.state = 'failed' or o.state = 'pending' and o.lease_token is null and o.due_at > clock_timestamp())
		and ($2::bool or (o.execution_id, o.seq) in (select * from unnest($3::text[]::uuid[], $4::bigint[])))
	returning 1
)
select exists (select from of), (select count(*) from again)
