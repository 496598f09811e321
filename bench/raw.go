package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The tables of a program that does by hand what has to be done for a step,
// and nothing else: one guarded update of a narrow row, a record of the step
// and an entry of the audit, with the same values in them as Courier writes.
const rawTables = `
create table execution (
	id uuid primary key, token uuid, lease_expires_at timestamptz, due_at timestamptz not null,
	started_at timestamptz, ended_at timestamptz, state_since timestamptz not null,
	seq bigint not null, step integer not null, current_started timestamptz, current_attempt integer, current_type text,
	state text not null
) with (fillfactor = 60);
create index execution_queued on execution (due_at, id) where state = 'queued';
create table step (
	execution_id uuid, seq bigint, started_at timestamptz not null, ended_at timestamptz not null, bytes bigint not null,
	execution_attempt integer not null, step integer not null, attempt integer not null,
	state text not null, type text not null, worker text not null, outputs json,
	primary key (execution_id, execution_attempt, step, seq)
);
create table audit (
	execution_id uuid, seq bigint, at timestamptz not null, ended_step integer, ended_attempt integer, ended_elapsed bigint,
	started_step integer, started_attempt integer, started_type text, state_from text, state_to text, state_elapsed bigint,
	worker text,
	primary key (execution_id, seq)
);`

const rawFill = `
insert into execution (id, due_at, state_since, seq, step, state)
select unnest($1::uuid[]), now(), now(), 1, 0, 'queued'`

const rawClaim = `
with c as (
	select id from execution where state = 'queued' and due_at <= now() order by due_at, id limit $1 for update skip locked
), u as (
	update execution e set state = 'running', token = $2, lease_expires_at = now() + interval '15 s', started_at = now(),
		state_since = now(), current_started = now(), current_attempt = 1, current_type = 'bench.nothing', seq = 2
	from c where e.id = c.id
	returning e.id
), a as (
	insert into audit (execution_id, seq, at, state_from, state_to, started_step, started_attempt, started_type, worker)
	select id, 2, now(), 'queued', 'running', 0, 1, 'bench.nothing', 'worker-1' from u
)
select id from u`

const rawApply = `
with t as materialized (
	select * from unnest($1::uuid[], $2::int[], $3::bool[]) as t (id, step, last)
), u as (
	update execution e set seq = e.seq + 1, step = t.step + 1, state = case when t.last then 'completed' else 'running' end,
		state_since = case when t.last then now() else state_since end, ended_at = case when t.last then now() end,
		lease_expires_at = case when not t.last then lease_expires_at end,
		current_started = case when not t.last then now() end, current_attempt = case when not t.last then 1 end,
		current_type = case when not t.last then 'bench.nothing' end
	from t where e.id = t.id and e.token = $4 and e.seq = t.step + 2 and e.state = 'running'
	returning e.id, e.seq, t.step, t.last, e.started_at
), s as (
	insert into step (execution_id, seq, started_at, ended_at, bytes, execution_attempt, step, attempt, state, type, worker, outputs)
	select id, seq, started_at, now(), 0, 1, step, 1, 'completed', 'bench.nothing', 'worker-1', '{"n":1}' from u
), a as (
	insert into audit (execution_id, seq, at, ended_step, ended_attempt, ended_elapsed, started_step, started_attempt, started_type,
		state_from, state_to, state_elapsed)
	select id, seq, now(), step, 1, extract(epoch from now() - started_at) * 1000000,
		case when not last then step + 1 end, case when not last then 1 end, case when not last then 'bench.nothing' end,
		case when last then 'running' end, case when last then 'completed' end,
		case when last then (extract(epoch from now() - started_at) * 1000000)::bigint end
	from u
)
select count(*) from u`

// A rawDesign is a way to keep executions and their history by hand.
type rawDesign struct{ tables, fill, claim, apply string }

// twoTables keeps a record of each step and an audit entry of each change, as Courier does.
var twoTables = rawDesign{rawTables, rawFill, rawClaim, rawApply}

// oneHistory keeps one row for each step: its record and the change that was made with it.
// The claim or the start that the next write follows stands in the row of the execution
// alone, and moves into the history with that write.
var oneHistory = rawDesign{`
create table execution (
	id uuid primary key, token uuid, lease_expires_at timestamptz, due_at timestamptz not null,
	started_at timestamptz, ended_at timestamptz, state_since timestamptz not null,
	seq bigint not null, step integer not null, current_started timestamptz, current_attempt integer, current_type text,
	state text not null, worker text
) with (fillfactor = 60);
create index execution_queued on execution (due_at, id) where state = 'queued';
create table history (
	execution_id uuid, seq bigint, at timestamptz not null, opened_at timestamptz, opened_by text, opened_elapsed bigint,
	ended_step integer, ended_attempt integer, ended_elapsed bigint, execution_attempt integer, state text, type text, bytes bigint, outputs json,
	state_from text, state_to text, state_elapsed bigint, worker text,
	primary key (execution_id, seq)
);`, rawFill, `
with c as (
	select id from execution where state = 'queued' and due_at <= now() order by due_at, id limit $1 for update skip locked
)
update execution e set state = 'running', token = $2, lease_expires_at = now() + interval '15 s', started_at = now(), worker = 'worker-1',
	state_since = now(), current_started = now(), current_attempt = 1, current_type = 'bench.nothing', seq = 2
from c where e.id = c.id
returning e.id`, `
with t as materialized (
	select * from unnest($1::uuid[], $2::int[], $3::bool[]) as t (id, step, last)
), u as (
	update execution e set seq = e.seq + 1, step = t.step + 1, state = case when t.last then 'completed' else 'running' end,
		state_since = case when t.last then now() else e.state_since end, ended_at = case when t.last then now() end,
		lease_expires_at = case when not t.last then e.lease_expires_at end,
		current_started = case when not t.last then now() end, current_attempt = case when not t.last then 1 end,
		current_type = case when not t.last then 'bench.nothing' end
	from t join execution o on o.id = t.id
	where e.id = t.id and e.token = $4 and e.seq = t.step + 2 and e.state = 'running'
	returning e.id, e.seq, t.step, t.last, e.started_at, o.current_started, o.worker
), a as (
	insert into history (execution_id, seq, at, opened_at, opened_by, ended_step, ended_attempt, ended_elapsed, execution_attempt, state, type,
		bytes, outputs, state_from, state_to, state_elapsed)
	select id, seq, now(), current_started, worker, step, 1, (extract(epoch from now() - current_started) * 1000000)::bigint, 1, 'completed', 'bench.nothing',
		0, '{"n":1}', case when last then 'running' end, case when last then 'completed' end,
		case when last then (extract(epoch from now() - started_at) * 1000000)::bigint end
	from u
)
select count(*) from u`}

// oneHistoryTwice has a second index, by which the latest record of each step is found without
// a sort.
var oneHistoryTwice = rawDesign{
	oneHistory.tables + "create index history_latest on history (execution_id, execution_attempt, ended_step, seq);", oneHistory.fill, oneHistory.claim, oneHistory.apply,
}

// rawWriters is how many connections write what is waiting; with two, one
// statement is being prepared while the other is being committed.
const rawWriters = 2

func migrateRaw(d rawDesign) func(ctx context.Context, url string) error {
	return func(ctx context.Context, url string) error { return execute(ctx, url, d.tables) }
}

// A rawSystem runs loads with statements written by hand: callers wait while a
// few writers commit together what is waiting.
type rawSystem struct {
	rawDesign
	pool  *pgxpool.Pool
	load  load
	token pgtype.UUID
	calls chan rawCall
}

type rawCall struct {
	id   pgtype.UUID
	step int32
	last bool
	done chan<- error
}

func openRaw(d rawDesign) func(ctx context.Context, db *database, l load, t *trips) (system, error) {
	return func(ctx context.Context, db *database, l load, t *trips) (system, error) {
		return d.open(ctx, db, l, t)
	}
}

func (d rawDesign) open(ctx context.Context, db *database, l load, t *trips) (system, error) {
	// A hand-written program knows that its batches are small.
	tuned := withSettings(db.url, "enable_hashjoin=off&enable_mergejoin=off&plan_cache_mode=force_generic_plan")
	pool, err := newPool(ctx, tuned, rawWriters+2, t)
	if err != nil {
		return nil, err
	}
	return &rawSystem{rawDesign: d, pool: pool, load: l, token: rawID(1), calls: make(chan rawCall, l.at)}, nil
}

func (s *rawSystem) close() { s.pool.Close() }

// rawID returns ids that sort as the numbers do.
func rawID(n int) pgtype.UUID {
	id := pgtype.UUID{Valid: true}
	rand.Read(id.Bytes[8:])
	for i := range 8 {
		id.Bytes[i] = byte(n >> (56 - 8*i))
	}
	return id
}

func (s *rawSystem) fill(ctx context.Context, n int) error {
	ids := make([]pgtype.UUID, n)
	for i := range ids {
		ids[i] = rawID(i)
	}
	_, err := s.pool.Exec(ctx, s.rawDesign.fill, ids)
	return err
}

func (s *rawSystem) run(ctx context.Context, n int) (ran, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var writers sync.WaitGroup
	for range rawWriters {
		writers.Go(func() { s.write(ctx) })
	}
	defer writers.Wait()
	defer cancel()
	var ready chan pgtype.UUID
	start := time.Now()
	if s.load.steps > 1 {
		// What is measured is the steps, so all has been claimed before.
		ids, err := s.claim(ctx, n)
		if err != nil {
			return ran{}, err
		}
		ready = make(chan pgtype.UUID, n)
		for _, id := range ids {
			ready <- id
		}
		start = time.Now()
	} else {
		ready = make(chan pgtype.UUID)
		writers.Go(func() { s.feed(ctx, n, ready) })
	}
	err := each(ctx, n, s.load.at, func(int) error {
		select {
		case id := <-ready:
			return s.execute(ctx, id)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return since(start, n), err
}

// claim takes executions, at most n.
func (s *rawSystem) claim(ctx context.Context, n int) ([]pgtype.UUID, error) {
	rows, err := s.pool.Query(ctx, s.rawDesign.claim, n, s.token)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []pgtype.UUID
	for rows.Next() {
		var id pgtype.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// feed claims as many executions as there are callers, again and again, so
// that there is always one ready.
func (s *rawSystem) feed(ctx context.Context, n int, ready chan<- pgtype.UUID) {
	for n > 0 {
		ids, err := s.claim(ctx, min(n, s.load.at))
		if err != nil || len(ids) == 0 {
			return
		}
		n -= len(ids)
		for _, id := range ids {
			select {
			case ready <- id:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *rawSystem) execute(ctx context.Context, id pgtype.UUID) error {
	done := make(chan error, 1)
	for step := range s.load.steps {
		s.calls <- rawCall{id, int32(step), step == s.load.steps-1, done}
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// write commits together what is waiting, again and again.
func (s *rawSystem) write(ctx context.Context) {
	for {
		var batch []rawCall
		select {
		case <-ctx.Done():
			return
		case c := <-s.calls:
			batch = append(batch, c)
		}
		for more := true; more && len(batch) < 1000; {
			select {
			case c := <-s.calls:
				batch = append(batch, c)
			default:
				more = false
			}
		}
		err := s.apply(ctx, batch)
		for _, c := range batch {
			c.done <- err
		}
	}
}

func (s *rawSystem) apply(ctx context.Context, batch []rawCall) error {
	ids, steps, last := make([]pgtype.UUID, len(batch)), make([]int32, len(batch)), make([]bool, len(batch))
	for i, c := range batch {
		ids[i], steps[i], last[i] = c.id, c.step, c.last
	}
	var n int
	if err := s.pool.QueryRow(ctx, s.rawDesign.apply, ids, steps, last, s.token).Scan(&n); err != nil {
		return err
	}
	if n != len(batch) {
		return fmt.Errorf("%d of %d steps were written", n, len(batch))
	}
	return nil
}
