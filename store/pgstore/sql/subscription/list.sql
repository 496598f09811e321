-- A page of subscriptions by name. $1 the name before the first, $2 just this one, or
-- empty, $3 at most how many.
select name, channel, events, jobs, chains, expected, window_us, disabled, disabled_at, reason, body from courier.subscriptions
where name > $1::text and ($2::text = '' or name = $2::text)
order by name limit $3::bigint
