package executions

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var raceCases = []testCase{
	{"claims_keep_the_global_limit", func(k *kit) {
		k.claimers(nil, func(run []courier.Execution) error {
			if len(run) > store.DefaultLimit {
				return fmt.Errorf("%d executions run, %d may", len(run), store.DefaultLimit)
			}
			return nil
		})
	}},
	{"claims_keep_the_limits_of_jobs_and_keys", func(k *kit) {
		k.Limit("", "0")
		k.Limit("key:p", "2")
		k.Limit("key:q", "1")
		k.Limit("job:job", "4")
		k.claimers(func(i int, n *store.NewExecution) {
			n.LimitKeys = [][]string{nil, {"p"}, {"q", "p"}, {"q"}, {"r"}}[i%5]
		}, func(run []courier.Execution) error {
			count := make(map[string]int)
			for _, x := range run {
				for _, key := range x.LimitKeys {
					count[key]++
				}
			}
			if len(run) > 4 || count["p"] > 2 || count["q"] > 1 {
				return fmt.Errorf("%d executions run, by key %v", len(run), count)
			}
			return nil
		})
	}},
	// A takeover is later than everything that the lost worker has written.
	{"takeover_is_later_than_what_was_written", func(k *kit) {
		k.Limit("", "0")
		for range 20 {
			h := k.HoldBy("lost", k.Add(k.New())[0].ID, k.Unit)
			h.Must(h.Begin(0))
			k.Pass(2 * k.Unit)
			k.At(2, func(i int) {
				const most = 5000
				if i == 0 {
					for n := 0; n < most && h.Try(h.Next(n, n+1)) == nil; n++ {
					}
					return
				}
				r := k.ClaimRequest(1)
				r.Only = []courier.ExecutionID{h.ID()}
				for range most {
					if c, err := k.Claim(k.Ctx(), r); err != nil || len(c.List) > 0 {
						return
					}
				}
				k.Errorf("nobody took over")
			})
			audit, err := k.Audit(k.Ctx(), store.AuditFilter{Execution: h.ID()})
			k.OK(err)
			for i := 1; i < len(audit); i++ {
				if audit[i].At.Before(audit[i-1].At) {
					k.Fatalf("audit entry %d is of %v, and the one before of %v", i+1, audit[i].At, audit[i-1].At)
				}
			}
		}
	}},
	{"claims_take_each_once", func(k *kit) {
		k.Limit("", "0")
		k.fill(40)
		var mu sync.Mutex
		taken := make(map[courier.ExecutionID]int)
		k.At(16, func(int) {
			for {
				c, err := k.Claim(k.Ctx(), k.ClaimRequest(3))
				if err != nil {
					k.Errorf("claim: %v", err)
				}
				if err != nil || len(c.List) == 0 {
					return
				}
				mu.Lock()
				for _, x := range c.List {
					taken[x.Execution.ID]++
				}
				mu.Unlock()
			}
		})
		k.Same("taken", len(taken), 40)
		for id, n := range taken {
			if n != 1 {
				k.Errorf("%s was claimed %d times", id, n)
			}
		}
	}},
	{"reclaims_take_each_once", func(k *kit) {
		for range 5 {
			k.Hold(k.Add(k.New())[0].ID, k.Unit)
		}
		k.Pass(2 * k.Unit)
		var taken atomic.Int64
		k.At(16, func(int) {
			c, err := k.Claim(k.Ctx(), k.ClaimRequest(2))
			if err != nil {
				k.Errorf("claim: %v", err)
			}
			taken.Add(int64(len(c.List)))
		})
		k.Same("taken", taken.Load(), int64(5))
	}},
	{"transitions_of_one_number", func(k *kit) {
		for range 5 {
			h := k.Start()
			h.Must(h.Begin(0))
			k.At(8, func(i int) {
				t := h.Next(0, 1)
				t.Ended[0].Error = fmt.Sprint("writer ", i)
				if err := k.Apply(k.Ctx(), t); err != nil {
					k.Errorf("apply: %v", err)
				}
			})
			k.Same("records", len(k.Records(h.ID())), 1)
			k.Same("audit", storekit.Moves(k.AuditOf(h.ID())[3:]), "0:running>completed 1:pending>running")
		}
	}},
	{"transitions_of_many_executions", func(k *kit) {
		const n, steps = 16, 12
		k.Limit("", "0")
		holders := make([]*holder, n)
		for i := range holders {
			holders[i] = k.Start()
		}
		k.At(n, func(i int) {
			h := holders[i]
			t := h.Begin(0)
			*t.Start = odd(i, 0)
			for s := range steps {
				if err := k.Apply(k.Ctx(), t); err != nil {
					k.Errorf("apply: %v", err)
					return
				}
				h.Seq = t.Seq
				if s > 0 {
					h.Seq++
				}
				t = h.Next(s, s+1)
				t.Ended[0], *t.Start = odd(i, s), odd(i, s+1)
				t.Ended[0].State = courier.StepCompleted
			}
		})
		for i, h := range holders {
			records := k.Records(h.ID())
			k.Same("records", len(records), steps-1)
			for s := range records {
				r := records[s]
				k.Same("record", []any{r.Step, r.ID, r.Type, r.Iteration, r.Total, r.Attempt, r.State, r.Bytes, string(r.Outputs)}, func() []any {
					r := odd(i, s)
					return []any{r.Step, r.ID, r.Type, r.Iteration, r.Total, r.Attempt, courier.StepCompleted, r.Bytes, string(r.Outputs)}
				}())
			}
			c := k.Get(h.ID()).Current
			w := odd(i, steps-1)
			k.Same("present step", []any{c.Step, c.ID, c.Type, c.Iteration, c.Total, c.Attempt}, []any{w.Step, w.ID, w.Type, w.Iteration, w.Total, w.Attempt})
			for s, e := range k.AuditOf(h.ID())[2:] {
				w := odd(i, s/2)
				k.Same("audit", []any{*e.Step, e.ID, e.Type, e.Iteration, e.Attempt}, []any{w.Step, w.ID, w.Type, w.Iteration, w.Attempt})
			}
		}
	}},
	// Of a concurrent request and end, one is first and the other takes it into account.
	{"a_request_and_the_end", func(k *kit) {
		for _, kind := range []courier.RequestKind{courier.RequestPause, courier.RequestCancel} {
			for range 6 {
				h := k.Start()
				var asked, applied error
				k.At(2, func(i int) {
					if i == 0 {
						_, asked = k.Request(k.Ctx(), store.Request{Execution: h.ID(), Kind: kind, By: "ann"})
					} else {
						applied = k.Apply(k.Ctx(), h.To(courier.Completed))
					}
				})
				k.outcome(h, kind, asked, applied)
			}
		}
	}},
	// A pause and a start at once leave the pause pending.
	{"a_request_and_a_start", func(k *kit) {
		for range 6 {
			h := k.Start()
			k.At(2, func(i int) {
				if i == 0 {
					k.Ask(h.ID(), courier.RequestPause)
				} else if err := k.Apply(k.Ctx(), h.Begin(0)); err != nil && !errors.Is(err, courier.ErrConflict) {
					k.Errorf("apply: %v", err)
				}
			})
			x := k.Get(h.ID())
			k.Same("state and request", []string{string(x.State), string(x.Request)}, []string{"running", "pause"})
			t := h.To(courier.Paused)
			t.Seq, t.Interrupt = int64(len(k.AuditOf(h.ID())))+1, x.Current != nil
			k.OK(k.Apply(k.Ctx(), t))
		}
	}},
	// Concurrent requests are carried out one after the other.
	{"operators", func(k *kit) {
		for range 6 {
			id := k.Add(k.New())[0].ID
			var done atomic.Int64
			k.At(8, func(i int) {
				kind := []courier.RequestKind{courier.RequestPause, courier.RequestCancel}[i%2]
				_, err := k.Request(k.Ctx(), store.Request{Execution: id, Kind: kind, By: "ann"})
				if err == nil {
					done.Add(1)
				} else if !errors.Is(err, courier.ErrConflict) {
					k.Errorf("ask: %v", err)
				}
			})
			k.State(id, courier.Cancelled)
			k.Same("entries", int64(len(k.AuditOf(id))), done.Load()+1)
		}
	}},
	// Of a reclaim and a late write at once, one is refused.
	{"a_reclaim_and_the_late_worker", func(k *kit) {
		k.Limit("", "0")
		for range 6 {
			h := k.Hold(k.Add(k.New())[0].ID, k.Unit/5)
			k.Pass(k.Unit / 2)
			var late error
			k.At(2, func(i int) {
				if i == 0 {
					k.MustClaim(k.ClaimRequest(1))
				} else {
					late = k.Apply(k.Ctx(), h.To(courier.Completed))
				}
			})
			x := k.Get(h.ID())
			switch {
			case late == nil && x.State == courier.Completed:
			case errors.Is(late, courier.ErrLeaseLost) && x.State == courier.Running:
				k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running running>queued queued>running")
			default:
				k.Errorf("the late worker has error %v, and the execution is %s", late, x.State)
			}
		}
	}},
	// After all of this at once, audit, records and state agree.
	{"everything_at_once", func(k *kit) {
		k.Limit("", "6")
		k.Limit("key:p", "2")
		k.fill(10)
		k.At(8, func(i int) { k.actor(i) })
	}},
}

// outcome checks the result of a request and a completion at once.
func (k *kit) outcome(h *holder, kind courier.RequestKind, asked, applied error) {
	k.Helper()
	x := k.Get(h.ID())
	switch {
	case applied == nil && errors.Is(asked, courier.ErrConflict): // the end was first
		k.Same("state", x.State, courier.Completed)
	case applied == nil && asked == nil && kind == courier.RequestPause: // the pause was first
		k.Same("state", x.State, courier.Completed)
	case errors.Is(applied, courier.ErrConflict) && asked == nil && kind == courier.RequestCancel:
		k.Same("state and request", []string{string(x.State), string(x.Request)}, []string{"running", "cancel"})
		h.Must(h.To(courier.Cancelled))
	default:
		k.Errorf("%s and completion at once: %v and %v, and the execution is %s", kind, asked, applied, x.State)
	}
}

// claimers runs 50 executions through 16 workers, and calls check with the running ones
// all the while.
func (k *kit) claimers(change func(i int, n *store.NewExecution), check func([]courier.Execution) error) {
	k.Helper()
	const total, workers = 50, 16
	list := make([]store.NewExecution, total)
	for i := range list {
		if list[i] = k.New(); change != nil {
			change(i, &list[i])
		}
	}
	k.Add(list...)
	var done atomic.Int64
	look := func() {
		run, err := k.Executions(k.Ctx(), store.Filter{States: []courier.State{courier.Running}, Limit: 1000})
		if err == nil {
			err = check(run)
		}
		if err != nil {
			k.Error(err)
			done.Store(total) // ends the case
		}
	}
	k.At(workers, func(i int) {
		for done.Load() < total {
			if i == 0 {
				look()
				k.Pass(k.Unit / 50)
				continue
			}
			c, err := k.Claim(k.Ctx(), k.ClaimRequest(1+i%3))
			if err != nil {
				k.Errorf("claim: %v", err)
				return
			}
			look()
			k.Pass(time.Duration(i) * k.Unit / 50)
			for j := range c.List {
				h := k.Holder(c.List[j])
				if err := k.Apply(k.Ctx(), h.To(courier.Completed)); err != nil {
					k.Errorf("apply: %v", err)
				}
				done.Add(1)
			}
		}
	})
	k.Same("claimed", done.Load(), int64(total))
}

// actor does a bit of everything, with no regard for others.
func (k *kit) actor(i int) {
	var mine []*holder
	for n := range 30 {
		k.Pass(time.Duration(i+1) * k.Unit / 1000)
		switch (n*7 + i*3) % 6 {
		case 0:
			if _, err := k.Enqueue(k.Ctx(), []store.NewExecution{k.key("p")}); err != nil {
				k.Errorf("enqueue: %v", err)
			}
		case 1, 2:
			r := k.ClaimRequest(2)
			if n%2 == 0 {
				r.Lease = k.Unit / 50
			}
			c, err := k.Claim(k.Ctx(), r)
			if err != nil {
				k.Errorf("claim: %v", err)
			}
			for _, c := range c.List {
				mine = append(mine, k.Holder(c))
			}
		case 3, 4:
			for _, h := range mine {
				t := h.To([]courier.State{courier.Completed, courier.Queued, courier.Failed, courier.Paused}[n%4])
				t.Interrupt = true // what the worker before was lost with
				err := k.Apply(k.Ctx(), t)
				if err != nil && !errors.Is(err, courier.ErrLeaseLost) && !errors.Is(err, courier.ErrConflict) {
					k.Errorf("apply: %v", err)
				}
			}
			mine = nil
		case 5:
			list, err := k.Executions(k.Ctx(), store.Filter{Limit: 3})
			if err != nil {
				k.Errorf("executions: %v", err)
			}
			for _, x := range list {
				kind := []courier.RequestKind{courier.RequestPause, courier.RequestResume, courier.RequestCancel}[n%3]
				_, err := k.Request(k.Ctx(), store.Request{Execution: x.ID, Kind: kind, By: "ann"})
				if err != nil && !errors.Is(err, courier.ErrConflict) {
					k.Errorf("ask: %v", err)
				}
			}
		}
	}
}

// odd is an attempt of step s in execution i, which has some things in common with
// others that are written together with it.
func odd(i, s int) courier.StepExecution {
	a := courier.StepExecution{Step: s, Type: string(rune('a' + (i+s)%5)), Attempt: 1 + i%3}
	if i%4 > 0 {
		a.ID = fmt.Sprint("step ", s)
	}
	if i%2 > 0 {
		a.Iteration, a.Total = []int{i}, []int{20 + s%3}
	}
	if s%3 > 0 {
		a.Outputs, a.Bytes = json.RawMessage(fmt.Sprintf(`{"n":%d}`, 100*i+s)), int64(i)
	}
	return a
}
