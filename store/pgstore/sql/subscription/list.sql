-- A page of subscriptions by name. $1 the name before the first, $2 at most how many.
select name, channel, events, jobs, chains, window_us, disabled, reason, body from courier.subscriptions
where name > $1::text
order by name limit $2::bigint
