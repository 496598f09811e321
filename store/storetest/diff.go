package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// Diff carries out n random operations on two empty stores in turn. The operations depend only on
// seed. The test ends at the first result in which the stores differ. Instants and tokens are not
// compared. At the end Diff checks all executions with [CheckExecution]. If one of the stores
// does not examine all waiting executions in a claim (see [store.Claims]), the claims of the two
// stores differ.
func Diff(t *testing.T, a, b func(t *testing.T) store.Store, seed uint64, n int) {
	t.Helper()
	if err := diff(t.Context(), a(t), b(t), seed, n); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func diff(ctx context.Context, a, b store.Store, seed uint64, n int) error {
	d := &differ{ctx: ctx, stores: [2]store.Store{a, b}, rand: rand.New(rand.NewPCG(seed, seed))}
	for i := range n {
		if err := d.step(); err != nil {
			return fmt.Errorf("operation %d: %w\nthe last operations were\n\t%s", i+1, err, strings.Join(d.trace, "\n\t"))
		}
		time.Sleep(time.Millisecond) // passes short leases and delays, and orders due times
	}
	for _, id := range d.ids {
		for i, s := range d.stores {
			if err := storekit.CheckExecution(ctx, s, id); err != nil && !errors.Is(err, courier.ErrNotFound) {
				return fmt.Errorf("store %d: %w", i+1, err)
			}
		}
	}
	return nil
}

// A differ holds the results of the operations so far.
type differ struct {
	ctx    context.Context
	stores [2]store.Store
	rand   *rand.Rand
	trace  []string
	ids    []courier.ExecutionID
	made   []store.NewExecution
	leases []*leases
}

// leases is one claimed execution in both stores.
type leases struct {
	id     courier.ExecutionID
	tokens [2]store.Token
	last   store.Transition
}

// short is a lease or a delay that passes before the next operation.
const short = time.Microsecond

// both runs f on both stores and compares the results.
func (d *differ) both(what string, f func(s store.Store, i int) (any, error)) error {
	if d.trace = append(d.trace, what); len(d.trace) > 12 {
		d.trace = d.trace[1:]
	}
	var got [2]string
	for i, s := range d.stores {
		v, err := f(s, i)
		got[i] = "error " + class(err)
		if err == nil {
			got[i] = masked(v)
		}
	}
	if got[0] != got[1] {
		return fmt.Errorf("%s:\nstore 1: %s\nstore 2: %s", what, got[0], got[1])
	}
	return nil
}

// class returns the properties of an error that callers can test.
func class(err error) string {
	var move *courier.TransitionError
	var request *store.RequestedError
	switch {
	case errors.As(err, &move):
		return fmt.Sprintf("move from %s to %s of %s", move.From, move.To, move.Execution)
	case errors.As(err, &request):
		return fmt.Sprintf("%s requested by %s", request.Kind, request.By)
	}
	for _, known := range []error{courier.ErrNotFound, courier.ErrConflict, courier.ErrLeaseLost, courier.ErrInvalid} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint("unknown: ", err)
}

// masked returns the JSON of v in which all instants are the same.
func masked(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err.Error()
	}
	raw, err = json.Marshal(mask(tree))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// mask replaces instants and values that depend on them.
func mask(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if v[k] = mask(e); k == "elapsed_seconds" || k == "Token" {
				v[k] = "-"
			}
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil && !at.IsZero() {
			return "instant"
		}
	}
	return v
}

// step does one operation, and compares everything that the operation may have changed.
func (d *differ) step() error {
	if d.ids == nil {
		return d.setUp()
	}
	switch n := d.rand.IntN(100); {
	case n < 3:
		return d.save()
	case n < 8:
		return d.set()
	case n < 25:
		return d.enqueue()
	case n < 45:
		return d.claim()
	case n < 50:
		return d.renew()
	case n < 80:
		return d.apply()
	case n < 92:
		return d.ask()
	}
	return d.list()
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// chance returns true once in n times.
func (d *differ) chance(n int) bool { return d.rand.IntN(n) == 0 }

func (d *differ) setUp() error {
	d.ids = []courier.ExecutionID{"00000000-0000-7000-8000-000000000000"} // is never created
	if err := d.save(); err != nil {
		return err
	}
	return d.both("save the second job", func(s store.Store, _ int) (any, error) {
		return s.Save(d.ctx, store.Definition{Kind: store.Job, Name: "two", Body: json.RawMessage(`{"depends_on": ["one"]}`)})
	})
}

func (d *differ) save() error {
	def := store.Definition{Kind: store.Job, Name: "one", Body: pick(d.rand, json.RawMessage(`1`), json.RawMessage(`2`))}
	return d.both("save "+storekit.Text(def), func(s store.Store, _ int) (any, error) { return s.Save(d.ctx, def) })
}

func (d *differ) set() error {
	key := store.LimitSetting(pick(d.rand, "", "", "job:one", "key:p", "key:q"))
	value := pick(d.rand, "", "0", "1", "2", "4", "many")
	return d.both(fmt.Sprintf("set %s to %q", key, value), func(s store.Store, _ int) (any, error) {
		if err := s.Set(d.ctx, key, value); err != nil {
			return nil, err
		}
		return s.Settings(d.ctx, store.SettingFilter{})
	})
}

func (d *differ) enqueue() error {
	var list []store.NewExecution
	for range 1 + d.rand.IntN(3) {
		if len(d.made) > 0 && d.chance(10) {
			list = append(list, pick(d.rand, d.made...)) // again
			continue
		}
		n := store.NewExecution{
			ID:  courier.ExecutionID(fmt.Sprintf("%08d-0000-7000-8000-000000000000", len(d.ids))),
			Job: pick(d.rand, "one", "one", "two"), Version: 1,
			StepTypes: pick(d.rand, []string{"a"}, []string{"a", "b"}, nil),
			Queue:     pick(d.rand, "default", "default", "night"), Priority: pick(d.rand, int16(0), 0, 3, -3),
			Delay: pick(d.rand, 0, 0, 0, short, storekit.Long), Hold: d.chance(8),
			Params:    pick(d.rand, nil, json.RawMessage(`{"a": 1}`), json.RawMessage(`{"a":1}`)),
			LimitKeys: pick(d.rand, nil, nil, []string{"p"}, []string{"q", "p"}),
			JobLimit:  pick(d.rand, 0, 0, 2), By: pick(d.rand, "", "ann"), Timeout: pick(d.rand, 0, storekit.Long),
			RerunOf: pick(d.rand, "", "", "", pick(d.rand, d.ids...)),
		}
		if n.Job == "two" && d.chance(2) {
			on := courier.JobDependency{Job: "one", RunOnFailure: d.chance(2), OnUnmet: pick(d.rand, "", "", courier.HoldUnmet, courier.RefuseUnmet)}
			on.RequiredStatus = pick(d.rand, "", courier.RequireCompleted, courier.RequireAny)
			n.DependsOn = []courier.JobDependency{on}
		}
		if d.chance(4) {
			n.IdempotencyKey = pick(d.rand, "x", "y", "z")
			n.KeyScope, n.KeyAlone = pick(d.rand, "", "", "s"), d.chance(2)
		}
		if d.chance(25) {
			n.Version = 9
		}
		d.ids, list = append(d.ids, n.ID), append(list, n)
	}
	d.made = append(d.made, list...)
	return d.both("enqueue "+storekit.Text(list), func(s store.Store, _ int) (any, error) { return s.Enqueue(d.ctx, list) })
}

func (d *differ) claim() error {
	r := store.ClaimRequest{
		Worker: pick(d.rand, "w1", "w2"), Workspace: pick(d.rand, "here", "here", "there"),
		StepTypes: pick(d.rand, []string{"b", "a"}, []string{"a", "b", "c"}, []string{"a"}),
		Queues:    pick(d.rand, []string{"default", "night"}, []string{"default"}, []string{"night", "default", "night"}),
		Max:       d.rand.IntN(5), Lease: pick(d.rand, short, short, storekit.Long, storekit.Long, storekit.Long),
	}
	if d.chance(6) {
		r.Only = []courier.ExecutionID{pick(d.rand, d.ids...), pick(d.rand, d.ids...)}
	}
	var claimed [2][]store.Claimed
	err := d.both("claim "+storekit.Text(r), func(s store.Store, i int) (any, error) {
		c, err := s.Claim(d.ctx, r)
		if err != nil {
			return nil, err
		}
		claimed[i] = c.List
		for j := range c.List {
			c.List[j].Remaining = c.List[j].Remaining.Round(storekit.Long / 2)
		}
		if r.Lease == short {
			c.Next = 0 // may be the end of these leases
		}
		return []any{c.List, c.Next.Round(storekit.Long / 2)}, nil
	})
	if err != nil {
		return err
	}
	for j, c := range claimed[0] {
		d.leases = append(d.leases, &leases{id: c.Execution.ID, tokens: [2]store.Token{c.Token, claimed[1][j].Token}})
		if err := d.look(c.Execution.ID); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) renew() error {
	extend := pick(d.rand, short, storekit.Long, storekit.Long)
	var list []*leases
	for _, l := range d.leases {
		if d.chance(3) {
			list = append(list, l)
		}
	}
	progress := make([]*store.Progress, len(list))
	for i, l := range list {
		progress[i] = d.progress(l.id)
	}
	err := d.both(fmt.Sprintf("renew %d leases for %v with %s", len(list), extend, storekit.Text(progress)), func(s store.Store, i int) (any, error) {
		r := store.RenewRequest{Worker: "w1", For: extend}
		for j, l := range list {
			r.Leases = append(r.Leases, store.Lease{Execution: l.id, Token: l.tokens[i], Progress: progress[j]})
		}
		got, err := s.Renew(d.ctx, r)
		slices.SortFunc(got, func(x, y store.Renewed) int { return strings.Compare(string(x.Execution), string(y.Execution)) })
		return got, err
	})
	for _, l := range list {
		err = errors.Join(err, d.look(l.id))
	}
	return err
}

// progress returns a random progress that mostly fits the present step of an execution.
func (d *differ) progress(id courier.ExecutionID) *store.Progress {
	x, err := d.stores[0].Execution(d.ctx, id)
	if err != nil || x.Current == nil || d.chance(3) {
		return nil
	}
	p := &store.Progress{Step: x.Current.Step, Iteration: x.Current.Iteration, Attempt: x.Current.Attempt, Idle: short}
	p.Cursor = pick(d.rand, nil, json.RawMessage(`{"n":1.0,"<":"&"}`), json.RawMessage(`"é"`))
	if !d.chance(3) {
		p.Report = &courier.Progress{Item: pick(d.rand, "", "a\"\n<b>"), Done: d.rand.Int64N(9), Total: -1, Stage: pick(d.rand, "", "verify")}
	}
	p.Attempt += pick(d.rand, 0, 0, 0, 1)
	return p
}

func (d *differ) ask() error {
	r := store.Request{
		Execution: pick(d.rand, d.ids...),
		Kind:      pick(d.rand, courier.RequestPause, courier.RequestResume, courier.RequestCancel, courier.RequestRelease, courier.RequestResume, courier.RequestRestart, ""),
		Reason:    pick(d.rand, "", "the disk is gone"),
		By:        pick(d.rand, "ann", "bob"),
	}
	if d.chance(2) {
		if x, err := d.stores[0].Execution(d.ctx, r.Execution); err == nil {
			r.Change = d.change(&x)
			r.Kind = pick(d.rand, r.Kind, courier.RequestResume, courier.RequestResume)
		}
	}
	err := d.both("ask "+storekit.Text(r), func(s store.Store, _ int) (any, error) { return s.Request(d.ctx, r) })
	return errors.Join(err, d.look(r.Execution))
}

func (d *differ) apply() error {
	if len(d.leases) == 0 {
		return d.claim()
	}
	l := d.leases[max(d.rand.IntN(len(d.leases)), d.rand.IntN(len(d.leases)))] // rather a recent one
	t := l.last
	if t.Execution == "" || !d.chance(8) { // else it is repeated
		x, err := d.stores[0].Execution(d.ctx, l.id)
		if err != nil {
			return err
		}
		entries, err := d.stores[0].Audit(d.ctx, store.AuditFilter{Execution: l.id})
		if err != nil {
			return err
		}
		t = d.transition(&x, int64(len(entries))+1)
	}
	l.last = t
	err := d.both("apply "+storekit.Text(t), func(s store.Store, i int) (any, error) {
		mine := t
		mine.Lease = l.tokens[i]
		return nil, s.Apply(d.ctx, mine)
	})
	return errors.Join(err, d.look(l.id))
}

// transition returns a random transition that a worker could write next.
func (d *differ) transition(x *courier.Execution, seq int64) store.Transition {
	to := pick(d.rand, courier.Running, courier.Running, courier.Running, courier.Running, courier.Queued, courier.Queued, courier.Paused,
		courier.Completed, courier.Failed, courier.Cancelled, courier.Created)
	t := store.Transition{Execution: x.ID, Seq: seq, To: to, Position: x.Position, Delay: pick(d.rand, 0, 0, short, storekit.Long)}
	t.Counters = store.Counters{Attempts: d.rand.IntN(3), Failures: d.rand.IntN(3), Interrupted: d.chance(3), Reclaims: d.rand.IntN(3)}
	t.Counters.Secrets = pick(d.rand, nil, nil, []courier.SecretUse{{Name: "key", Step: d.rand.IntN(3), Type: "a"}})
	if d.chance(20) {
		t.Seq += pick(d.rand, -2, -1, 1, int64(2))
	}
	if c := x.Current; c != nil && d.chance(3) {
		t.Interrupt = true
	} else if c != nil {
		s := courier.StepExecution{Step: c.Step, Type: c.Type, Iteration: c.Iteration, Attempt: c.Attempt, Bytes: 7}
		s.State = pick(d.rand, courier.StepCompleted, courier.StepCompleted, courier.StepFailed)
		s.Outputs = pick(d.rand, nil, json.RawMessage(`{"n": 1.0}`))
		s.Events = pick(d.rand, nil, nil, []courier.StepEvent{{Name: "e", Payload: json.RawMessage(`{"n":1.0}`)}})
		s.Stack, s.Log = pick(d.rand, "", "", "main.main()\n"), pick(d.rand, "", "", "level=INFO msg=\"so\"\n")
		t.Ended = append(t.Ended, s)
	}
	if d.chance(8) {
		t.Ended = append(t.Ended, courier.StepExecution{Step: 9, Type: "b", Attempt: 1, State: courier.StepSkipped, Error: "why \"so\""})
	}
	if to == courier.Running && !d.chance(4) {
		t.Start = &courier.StepExecution{Step: d.rand.IntN(4), Type: "a", Attempt: 1 + int(seq), Iteration: pick(d.rand, nil, []int{2})}
		t.Position = courier.Position{Step: t.Start.Step, Loops: pick(d.rand, nil, []courier.LoopPosition{{Step: 1, Index: 2}})}
	}
	if d.chance(5) {
		t.Failure = &courier.Failure{Step: 1, Reason: courier.ReasonError, Message: "it failed"}
	}
	if d.chance(5) {
		n := d.rand.IntN(4)
		t.FailedItems = &n
		t.Counters.AcceptedItems, t.Counters.Target = d.rand.IntN(n+1), d.rand.IntN(3)
		for i := range t.Ended {
			t.Ended[i].FailedLoop = pick(d.rand, nil, new(int), &n)
			t.Ended[i].ItemLabels = pick(d.rand, nil, []string{"inv-7.csv"}, []string{"acme", "\u202e\"<"})
		}
	}
	t.Repairs, t.Progress = d.repairs(8), d.progress(x.ID)
	t.RetryJob = d.chance(12)
	if d.chance(10) {
		t.Workspace, t.DiskBytes = pick(d.rand, "here", "there"), 5
	}
	t.OnlyCopies = pick(d.rand, nil, nil, &courier.OnlyCopies{}, &courier.OnlyCopies{Files: []courier.File{{Path: "a ü.csv", Size: 3}}, Count: 2, Bytes: 7, Problem: "so"})
	return t
}

// look compares everything that the stores return about an execution.
func (d *differ) look(id courier.ExecutionID) error {
	return errors.Join(
		d.both("execution "+string(id), func(s store.Store, _ int) (any, error) { return s.Execution(d.ctx, id) }),
		d.both("steps of "+string(id), func(s store.Store, _ int) (any, error) {
			return s.Steps(d.ctx, store.StepFilter{Execution: id, Details: true})
		}),
		d.both("latest of "+string(id), func(s store.Store, _ int) (any, error) { return s.Latest(d.ctx, store.LatestFilter{Execution: id}) }),
		d.both("failed items of "+string(id), func(s store.Store, _ int) (any, error) {
			return s.Steps(d.ctx, store.StepFilter{Execution: id, FailedItems: true})
		}),
		d.both("audit of "+string(id), func(s store.Store, _ int) (any, error) { return s.Audit(d.ctx, store.AuditFilter{Execution: id}) }))
}

// list compares pages of all kinds.
func (d *differ) list() error {
	id, after, limit := pick(d.rand, d.ids...), int64(d.rand.IntN(6)), 1+d.rand.IntN(4)
	f := store.Filter{Job: pick(d.rand, "", "", "one"), Queue: pick(d.rand, "", "", "night"), Limit: d.rand.IntN(8), Waiting: d.chance(5)}
	if d.chance(2) {
		f.States = []courier.State{courier.Queued, courier.Failed}
	}
	if d.chance(3) {
		f.Before = id
	}
	f.FailedItems = d.chance(5)
	if d.chance(5) {
		f.IDs = []courier.ExecutionID{pick(d.rand, d.ids...), pick(d.rand, d.ids...)}
	}
	if d.chance(5) {
		f.RerunOf = pick(d.rand, d.ids...)
	}
	steps, before := store.StepFilter{Execution: id, After: after, Limit: limit, FailedItems: d.chance(4), Files: d.chance(4), Details: d.chance(2), Events: d.chance(4), Attempt: pick(d.rand, 0, 0, 1, 2)}, int64(d.rand.IntN(12))
	if d.chance(2) {
		steps.Step = new(int)
		*steps.Step = d.rand.IntN(4)
	}
	if d.chance(3) {
		steps.States = []courier.StepState{courier.StepFailed, courier.StepSkipped}
	}
	version := d.rand.IntN(4)
	return errors.Join(
		d.both("executions "+storekit.Text(f), func(s store.Store, _ int) (any, error) { return s.Executions(d.ctx, f) }),
		d.both("a page of steps "+storekit.Text(steps), func(s store.Store, _ int) (any, error) { return s.Steps(d.ctx, steps) }),
		d.both("the latest steps before", func(s store.Store, _ int) (any, error) {
			return s.Latest(d.ctx, store.LatestFilter{Execution: id, Before: before})
		}),
		d.both("transfers", func(s store.Store, _ int) (any, error) {
			var steps []store.TransferStep
			for _, id := range d.ids {
				steps = append(steps, store.TransferStep{Execution: id, Attempt: 1, Step: 0}, store.TransferStep{Execution: id, Attempt: 1, Step: 1}, store.TransferStep{Execution: id, Attempt: 2, Step: 1})
			}
			o, ok := s.(store.Overview)
			if !ok {
				return nil, errors.ErrUnsupported
			}
			return o.Transfers(d.ctx, store.TransferFilter{Steps: steps, Limit: 2 * limit})
		}),
		d.both("a page of the audit", func(s store.Store, _ int) (any, error) {
			return s.Audit(d.ctx, store.AuditFilter{Execution: id, After: after, Limit: limit})
		}),
		d.both("definitions", func(s store.Store, _ int) (any, error) {
			return s.List(d.ctx, store.DefinitionFilter{Kind: store.Job, Limit: limit})
		}),
		d.both("a definition", func(s store.Store, _ int) (any, error) { return s.Load(d.ctx, store.Job, "one", version) }))
}
