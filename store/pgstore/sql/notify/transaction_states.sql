-- The states of transactions. $1 transactions.
select x, pg_xact_status(x::xid8) from pg_catalog.unnest($1::text[]) as x
