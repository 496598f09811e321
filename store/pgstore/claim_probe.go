package pgstore

import (
	"context"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A probe runs for a twentieth of the time, for up to a fifth if a lease would else be
// taken over late, and again whenever a lease ends.
const (
	probeEvery   = 20 // the time between two probes in durations of one; at most two thirds of a lease
	probeAtLeast = 4  // the least time, likewise
	minProbe     = 5 * time.Millisecond
	probeTimeout = 2 * time.Minute
	probeErrors  = 3 // successive errors after which claims begin at the start again
)

// probe searches, again and again, for executions that claims like c pass over because
// they begin behind the last claimed row. It ends when a search is quick again.
func (s *Store) probe(c *claim) {
	for failures := 0; ; {
		ctx, cancel := context.WithTimeout(s.ctx, probeTimeout)
		found, err := s.probeOnce(ctx, c)
		cancel()
		if err == nil {
			failures = 0
		} else if failures++; s.ctx.Err() == nil {
			s.log.Warn("search for work that claims pass over; it is tried again", "error", err)
		}
		wait, more := s.claims.probed(c, found, failures)
		if found.any() || !more {
			s.notifier.Queues.WakeAll()
		}
		if !more || !s.sleep(wait) {
			return
		}
	}
}

// A found is the result of a probe.
type found struct {
	first   map[string]place // of the queues with an execution before the place where claims begin
	lost    string           // the first execution whose lease has ended; "" if none has
	ends    time.Duration    // until the next lease ends; 0: not known
	started time.Time        // when the probe began
	trip    time.Duration    // what a round trip took before it
}

func (f *found) any() bool { return len(f.first) > 0 || f.lost != "" }

// probeOnce searches once.
func (s *Store) probeOnce(ctx context.Context, c *claim) (f found, err error) {
	f.started, f.first = time.Now(), make(map[string]place)
	err = s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		asked := time.Now()
		if err := conn.Ping(ctx); err != nil {
			return err
		}
		f.started = time.Now()
		f.trip = f.started.Sub(asked)
		queues, urgencies, dues, ids := s.claims.places()
		rows, err := conn.Query(ctx, s.sql("claim/find_passed_over"), c.Workspace, textsOf(c.StepTypes), c.queues, queues, urgencies, dues, ids)
		if err != nil {
			return err
		}
		return f.read(rows)
	})
	return f, err
}

// read reads the rows of sql/claim/find_passed_over.sql.
func (f *found) read(rows pgx.Rows) error {
	var queue, id string
	var p place
	var due time.Time
	var ends int64
	_, err := pgx.ForEachRow(rows, []any{&queue, &p.urgency, &due, &id, &ends}, func() error {
		if queue == "" {
			f.lost, f.ends = id, time.Duration(ends)*time.Microsecond
		} else {
			// A claim begins behind a place. With the lowest id, that includes the row.
			f.first[queue] = place{p.urgency, due.UTC().Format(dueFormat), bind.NilUUID}
		}
		return nil
	})
	return err
}

// places returns where claims begin in each queue, as parameters.
func (k *claimState) places() (queue []string, urgency []int32, due, id []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for q, p := range k.last {
		queue, urgency, due, id = append(queue, q), append(urgency, p.urgency), append(due, p.due), append(id, p.id)
	}
	return queue, urgency, due, id
}

// probed records the result of a probe, or that failures successive ones have failed.
// It returns the time until the next probe, and whether there is to be one.
func (k *claimState) probed(c *claim, f found, failures int) (wait time.Duration, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.probe != c {
		return 0, false
	}
	took := time.Since(f.started)
	k.trip = f.trip
	if failures >= probeErrors || failures == 0 && max(0, took-k.trip) <= k.quick || time.Since(k.used) > c.Lease {
		k.probe = nil
		return 0, false
	}
	for q, p := range f.first {
		k.back[q] = p
	}
	k.runningFrom = bind.MaxUUID
	if f.lost != "" {
		k.runningFrom, k.nextScan = f.lost, f.started
	}
	wait = max(min(probeEvery*took, c.Lease*2/3-took), probeAtLeast*took)
	if f.ends > 0 {
		wait = min(wait, max(f.ends-took, took)) // its worker may be lost
	}
	return max(wait, minProbe), true
}
