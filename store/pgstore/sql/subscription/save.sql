-- Saves a subscription. $1 name, $2 channel, $3 events, $4 jobs, $5 chains,
-- $6 window in microseconds, $7 disabled, $8 reason, $9 body, $10 expectations.
insert into courier.subscriptions as s (name, channel, events, jobs, chains, window_us, disabled, reason, body, expected, disabled_at)
values ($1::text, $2::text, $3::text[], $4::text[], $5::text[], $6::bigint, $7::bool, $8::text, $9::text, $10::text[],
	case when $7::bool then clock_timestamp() end)
on conflict (name) do update set
	channel = excluded.channel, events = excluded.events, jobs = excluded.jobs, chains = excluded.chains, expected = excluded.expected,
	window_us = excluded.window_us, disabled = excluded.disabled, reason = excluded.reason, body = excluded.body,
	disabled_at = case when excluded.disabled then coalesce(s.disabled_at, excluded.disabled_at) end
