-- Adds an entry to the journal. $1 by, $2 via, $3 verb, $4 kind, $5 name, $6 job, $7 was and
-- $8 now as JSON (empty: none), $9 execution (empty: none), $10 reason, $11 outcome,
-- $12 the number of the entry that it completes (0: none).
insert into courier.journal (at, by, via, verb, kind, name, job, was, now, execution_id, reason, outcome, of)
values (clock_timestamp(), $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, nullif($7::text, ''), nullif($8::text, ''),
	nullif($9::text, '')::uuid, $10::text, $11::text, nullif($12::bigint, 0))
returning id, at
