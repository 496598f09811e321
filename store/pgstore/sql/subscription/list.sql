-- All subscriptions.
select name, channel, events, jobs, chains, window_us, disabled, reason, body from courier.subscriptions order by name
