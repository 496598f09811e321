-- Tells those who listen which queues have changed. $1 channel, $2 payloads.
select pg_notify($1::text, p) from unnest($2::text[]) as p
