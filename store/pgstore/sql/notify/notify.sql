-- Tells those who listen which queues have changed. $1 channel, $2 payloads.
-- There is nothing in it that would have to be on a disk.
select pg_notify($1::text, p), set_config('synchronous_commit', 'off', true) from unnest($2::text[]) as p
