-- Sends notifications. $1 channel, $2 payloads. The commit need not be on disk.
select pg_notify($1::text, p), set_config('synchronous_commit', 'off', true) from pg_catalog.unnest($2::text[]) as p
