-- Writes looks: each at an expectation that has not changed since it was read, with its arrivals
-- and events, and ends the leases of these. $1 names, $2 revisions as they were read, $3 from
-- when on sightings are needed, $4 from which day on arrivals are, $5 memories, $6 microseconds
-- until they are due, negative: never, $7 days before which arrivals are removed, or empty. Of the
-- arrivals $8 expectation, $9 day, $10 id, $11 state, $12 body. Of the events $13 expectation,
-- $14 id, $15 number, $16 type, $17 instant, $18 text, $19 payload. Returned are the names of those
-- that were written.
with arg as materialized (
	select clock_timestamp() as now
), look as materialized (
	select * from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
		as u (name, revision, seen_from, arrivals_from, memory, after, forget)
), locked as materialized (
	select e.name from courier.expectations e join look l on l.name = e.name and l.revision = e.revision
	order by e.name for update of e
), written as (
	update courier.expectations e set revision = e.revision + 1, seen_from = l.seen_from::timestamptz, arrivals_from = l.arrivals_from::date, memory = l.memory,
		leased_until = null, due_at = case when l.after >= 0 then arg.now + l.after::float8 * interval '1 microsecond' end
	from look l, arg
	where e.name = l.name and e.revision = l.revision and e.name = any(array(select locked.name from locked))
	returning e.name
), saved as (
	insert into courier.arrivals as a (expectation, day, id, state, body)
	select u.expectation, u.day::date, u.id::uuid, u.state, u.body
	from unnest($8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) as u (expectation, day, id, state, body)
	join written w on w.name = u.expectation
	on conflict (expectation, day) do update set state = excluded.state, body = excluded.body
), forgotten as (
	delete from courier.arrivals a using look l, written w
	where l.name = w.name and a.expectation = w.name and l.forget <> '' and a.day < nullif(l.forget, '')::date
), kept as (
	insert into courier.outbox (subscription_id, execution_id, seq, event, job, chain, version, at, error, event_name, payload, state, due_at)
	select s.id, u.id::uuid, u.seq, u.event, '', '', 0, u.at::timestamptz, u.error, u.expectation, u.payload,
		case when s.window_us > 0 then 'held' else 'pending' end, arg.now
	from unnest($13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[], $18::text[], $19::text[])
		as u (expectation, id, seq, event, at, error, payload)
	cross join arg
	join written w on w.name = u.expectation
	join courier.subscriptions s on not s.disabled and u.event = any(s.events)
		and (pg_catalog.cardinality(s.expected) = 0 or u.expectation = any(s.expected))
)
select w.name from written w
