package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Apply writes the progress of a running execution. What is waiting to be
// written when a writer becomes free is written in one statement, so with many
// executions at once many share a commit; alone, each is written at once.
func (s *Store) Apply(ctx context.Context, t store.Transition) error {
	if err := s.begun(ctx); err != nil {
		return err
	}
	if err := t.Check(); err != nil {
		return err
	}
	a := &applying{t: &t, done: make(chan error, 1)}
	s.writers.add(s, a)
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("transition %d of %s, which may or may not be written: %w", t.Seq, t.Execution, ctx.Err())
	}
}

// An applying is a call of Apply.
type applying struct {
	t    *store.Transition
	done chan error // has room for one
}

// bytes is about how much the transition has to write.
func (a *applying) bytes() int {
	n := 0
	for i := range a.t.Ended {
		e := &a.t.Ended[i]
		n += len(e.Outputs) + len(e.Error) + 100*len(e.Files)
	}
	return n
}

// writers write what callers of Apply bring. There are none while nobody does.
type writers struct {
	mu      sync.Mutex
	waiting []*applying
	active  int
	taken   time.Time // when a writer last took something to write
}

// What one statement writes at most. The bytes are those of outputs; a
// transition that has more is written alone.
const (
	maxBatch = 256
	maxBytes = 1 << 20
)

// A further writer begins when so many transitions are waiting, or when those
// that write have been at it for a while. The fewer, the more each statement
// writes, and the less all of it costs.
const (
	manyWaiting = 64
	longWriting = 5 * time.Millisecond
)

// writeTimeout bounds a statement that writes progress: its callers may have
// given up by then.
const writeTimeout = 10 * time.Second

func (w *writers) add(s *Store, a *applying) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, a)
	if w.active == 0 || w.active < s.opt.Writers && (len(w.waiting) >= manyWaiting || time.Since(w.taken) > longWriting) {
		w.active++
		s.rest.Add(1)
		go func() {
			defer s.rest.Done()
			s.write()
		}()
	}
}

// take returns the next batch, or nil if the writer may end.
func (w *writers) take() []*applying {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		w.active--
		return nil
	}
	w.taken = time.Now()
	n, bytes := 0, 0
	for n < min(len(w.waiting), maxBatch) {
		if bytes += w.waiting[n].bytes(); n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	batch := append([]*applying(nil), w.waiting[:n]...)
	w.waiting = append(w.waiting[:0], w.waiting[n:]...)
	clear(w.waiting[len(w.waiting):cap(w.waiting)])
	slices.SortFunc(batch, func(a, b *applying) int { return cmp.Compare(a.t.Execution, b.t.Execution) })
	// A statement can write to an execution but once: a second one comes after.
	alone := batch[:0]
	for _, a := range batch {
		if len(alone) > 0 && alone[len(alone)-1].t.Execution == a.t.Execution {
			w.waiting = append(w.waiting, a)
		} else {
			alone = append(alone, a)
		}
	}
	return alone
}

// write writes batches while there are any.
func (s *Store) write() {
	for {
		batch := s.writers.take()
		if batch == nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, writeTimeout)
		s.writeBatch(ctx, batch)
		cancel()
	}
}

// writeBatch writes transitions of different executions, in the order of their
// ids, and tells their callers what came of it.
func (s *Store) writeBatch(ctx context.Context, batch []*applying) {
	for n := 0; len(batch) > 0; n++ {
		rest, err := s.writeOnce(ctx, batch)
		switch {
		case err == nil && n < maxAgain:
			batch = rest
			continue
		case err == nil:
			err = errors.New("the execution was being changed all the time")
		case again(err) && n < maxAgain:
			continue
		case refused(err) && len(batch) > 1:
			// One of them has what the server can't keep; the others must not suffer.
			for i := range batch {
				s.writeBatch(ctx, batch[i:i+1])
			}
			return
		}
		for _, a := range batch {
			a.done <- failed(fmt.Sprintf("write transition %d of %s", a.t.Seq, a.t.Execution), err)
		}
		return
	}
}

// writeOnce sends the statement and tells the callers whose transitions are
// decided. It returns the others: what stood in their way has just gone.
func (s *Store) writeOnce(ctx context.Context, batch []*applying) ([]*applying, error) {
	rows, err := s.pool.Query(ctx, s.q.apply, applyArgs(batch)...)
	if err != nil {
		return nil, err
	}
	written := make([]bool, len(batch))
	var ord int64
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&ord}, func() error {
		written[ord-1] = true
		n++
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, a := range batch {
		if written[i] {
			s.moved(a.t)
			a.done <- nil
		}
	}
	if n == len(batch) {
		return nil, nil
	}
	var ids []string
	for i, a := range batch {
		if !written[i] {
			ids = append(ids, uuid(string(a.t.Execution)))
		}
	}
	standings, err := s.standings(ctx, s.pool, ids)
	var rest []*applying
	for i, a := range batch {
		if written[i] {
			continue
		}
		if err != nil {
			a.done <- failed(fmt.Sprintf("read how %s stands", a.t.Execution), err)
			continue
		}
		st, ok := standings[a.t.Execution]
		if !ok {
			a.done <- unknown(a.t.Execution)
			continue
		}
		t := *a.t
		t.Lease = store.Token(uuid(string(t.Lease)))
		if write, err := t.Admit(st); err != nil || !write {
			a.done <- err
		} else {
			rest = append(rest, a)
		}
	}
	return rest, nil
}

// moved tells who waits for work what a transition may have made claimable.
func (s *Store) moved(t *store.Transition) {
	switch t.To {
	case courier.Running:
		return
	case courier.Queued:
		s.wakeQueueOf(t)
	}
	s.freed()
}

// standings returns how executions stand.
func (s *Store) standings(ctx context.Context, db querier, ids []string) (map[courier.ExecutionID]store.Standing, error) {
	m := make(map[courier.ExecutionID]store.Standing, len(ids))
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var id courier.ExecutionID
		var st store.Standing
		err = rows.Scan(&id, &st.State, &st.Lease, &st.First, &st.Last, &st.Seq, &st.Request, &st.By)
		m[id] = st
		return none, err
	}, s.q.standing, ids)
	return m, err
}

// applyArgs are the parameters of sql/apply.sql.
func applyArgs(batch []*applying) []any {
	n, ended := len(batch), 0
	for _, a := range batch {
		ended += len(a.t.Ended)
	}
	texts := func(n int) []string { return make([]string, n) }
	var (
		id, token, state                               = texts(n), texts(n), texts(n)
		seq, last, delay, disk                         = make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
		step, reclaims, startStep, startAttempt        = make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
		loops, marks, resumed, request                 = texts(n), texts(n), texts(n), texts(n)
		pause, cancel, interrupt, retry                = make([]bool, n), make([]bool, n), make([]bool, n), make([]bool, n)
		failure, reason, message, workspace            = texts(n), texts(n), texts(n), texts(n)
		startID, startType, startIteration, startTotal = texts(n), texts(n), texts(n), texts(n)

		ord, endedStep, attempt                 = make([]int32, 0, ended), make([]int32, 0, ended), make([]int32, 0, ended)
		lasts                                   = make([]bool, 0, ended)
		endedSeq, bytes                         = make([]int64, 0, ended), make([]int64, 0, ended)
		endedState, typ, stepID                 = texts(ended)[:0], texts(ended)[:0], texts(ended)[:0]
		iteration, total, started               = texts(ended)[:0], texts(ended)[:0], texts(ended)[:0]
		outputs, files, endedReason, endedError = texts(ended)[:0], texts(ended)[:0], texts(ended)[:0], texts(ended)[:0]
	)
	for i, a := range batch {
		t := a.t
		id[i], token[i], state[i] = uuid(string(t.Execution)), uuid(string(t.Lease)), string(t.To)
		seq[i], delay[i], disk[i] = t.Seq, micros(t.Delay), t.DiskBytes
		last[i] = t.Seq + int64(len(t.Ended)) - 1
		step[i], reclaims[i], startStep[i] = int32(t.Position.Step), int32(t.Marks.Reclaims), -1
		if len(t.Position.Loops) > 0 {
			loops[i] = encode(t.Position.Loops)
		}
		marks[i], resumed[i], request[i] = writeMarks(t.Marks), string(t.Marks.Resumed), string(t.Request)
		pause[i], cancel[i] = t.Answers(courier.RequestPause), t.Answers(courier.RequestCancel)
		interrupt[i], retry[i], workspace[i] = t.Interrupt, t.RetryJob, t.Workspace
		if t.Failure != nil {
			failure[i], reason[i], message[i] = encode(t.Failure), string(t.Failure.Reason), t.Failure.Message
		}
		if t.To != courier.Running {
			last[i]++
		}
		if b := t.Start; b != nil {
			startStep[i], startAttempt[i], startID[i], startType[i] = int32(b.Step), int32(b.Attempt), b.ID, b.Type
			startIteration[i], startTotal[i] = numbers(b.Iteration), numbers(b.Total)
			last[i]++
		}
		for j := range t.Ended {
			e := &t.Ended[j]
			ord, lasts = append(ord, int32(i+1)), append(lasts, j == len(t.Ended)-1)
			endedSeq, endedStep, attempt = append(endedSeq, t.Seq+int64(j)), append(endedStep, int32(e.Step)), append(attempt, int32(e.Attempt))
			endedState, typ, stepID = append(endedState, string(e.State)), append(typ, e.Type), append(stepID, e.ID)
			iteration, total = append(iteration, numbers(e.Iteration)), append(total, numbers(e.Total))
			at := ""
			if !e.StartedAt.IsZero() {
				at = e.StartedAt.UTC().Format(time.RFC3339Nano)
			}
			started, bytes, outputs = append(started, at), append(bytes, e.Bytes), append(outputs, string(e.Outputs))
			list := ""
			if e.Files != nil {
				list = encode(e.Files)
			}
			files, endedReason, endedError = append(files, list), append(endedReason, string(e.Reason)), append(endedError, e.Error)
		}
	}
	return []any{
		id, token, seq, last, state, delay, step, loops, marks, reclaims, resumed, request, pause, cancel, interrupt,
		failure, reason, message, retry, workspace, disk, startStep, startAttempt, startID, startType, startIteration, startTotal,
		ord, lasts, endedSeq, endedStep, attempt, endedState, typ, stepID, iteration, total, started, bytes, outputs, files, endedReason, endedError,
	}
}
