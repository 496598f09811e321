// Package simulation runs clusters of engines under faults, in virtual time, and checks Courier's
// promises after each run.
//
// A seed defines a world: a few jobs with loops, branches and every failure policy, a few workers
// on one store, clients that enqueue, and operators that pause, resume, cancel and change limits.
// A network between workers and store loses calls before and after they took effect, delays them
// beyond the end of leases, and breaks down. Workers crash at any call, stand still for longer
// than their leases, stop and start again. Steps fail, panic, hang, and ignore the end of their
// context. A quarter of the worlds have schedules, and chains that operators pause, resume,
// cancel and retry. With options, a day ends in the middle of the world, and schedules use
// calendars that people change; or the world has expectations instead of executions. At the end
// the faults stop. Then everything that was acknowledged must end, and every promise of package
// promise must hold.
//
// The same seed gives the same world: each actor has its own random numbers, which depend only on
// its own actions. Actors wait by nanoseconds, so no two things happen at once. See [Run].
//
// # Seeds
//
// Worlds find what they have found before, so a change is tried with seeds that nobody has run.
// The numbers up to 10,265,000, the first 200,000 from 20, 30, 40, 50, 60, 70, 80, 90, 100, 110
// and 120 million on, 20,000 from 122, 123, 124, 125, 128, 132 to 136 million, and 5,000 from 126,
// 127.1, 182.1, 182.2, 182.3 and 184 million are used; for worlds of expectations 1,300 from 183
// million on. Rare moves, such as a second repair or a worker lost in a repair, have
// chosen worlds in testdata/rare.txt; TestRareWorlds requires each move at least 100 times.
// After a change that makes worlds draw other random numbers it may ask for other seeds:
//
//	go test ./engine/simulation -run TestRareWorlds -update -seeds 5000 -from 90000000 -v
package simulation

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// Options adapt a simulation. Nil means the defaults.
type Options struct {
	// Open returns the store of a world. It must be empty and answer without I/O. A store without
	// the roles Schedules and Chains has only worlds without schedules and chains. Nil means a
	// memstore; with every other seed, claims start first steps.
	// first steps.
	Open func() store.Store
	// Dir is the workspace of all workers, which must exist. Empty means a temporary directory of
	// the test.
	Dir string
	// Calendars requests a world in the middle of which a day ends, and whose schedules use
	// calendars. It differs from the world of the same seed without this option.
	Calendars bool
	// Finally requests a world in which most jobs have finally parts. It differs from the world
	// of the same seed without this option.
	Finally bool
	// Expectations requests a world of expectations on a memstore, whose jobs have no executions.
	// A partner's files arrive, are late, or do not arrive. The clock of the store differs from
	// the clocks of the machines, and jumps. The world differs from the world of the same seed
	// without this option.
	Expectations bool
	// Plain requests a world without rescues. Half of the worlds have none anyway; the option
	// does not change them.
	Plain bool
	// Tell also requests the story of a world in which no promise was broken.
	Tell bool
}

// A Result is the result of one world.
type Result struct {
	Seed uint64
	// Err lists the broken promises; nil if there are none.
	Err error
	// Trace is a hash of all events and their times.
	Trace uint64
	// Story lists all events, line by line, if Err is not nil or Options.Tell is set.
	Story      string
	Virtual    time.Duration // its duration in the world's own time
	Executions int
	// Events counts what happened, by kind: "execute", "crash", "claim" and so on.
	Events map[string]int
}

// faults are the kinds of events that are faults of the world.
var faults = []string{
	"lost before", "lost after", "late", "slow", "outage", "pause", "crash",
	"fails", "permanent", "panics", "hangs", "ignores", "never", "kills",
}

// Faults returns the number of faults: calls that were lost or delayed, outages, processes that
// died or stood still, and steps that misbehaved.
func (r *Result) Faults() int {
	n := 0
	for _, kind := range faults {
		n += r.Events[kind]
	}
	return n
}

// Run runs the world of a seed in a bubble of testing/synctest, and returns its result. A
// broken promise is in the result and does not fail t.
func Run(t *testing.T, seed uint64, opt *Options) Result {
	t.Helper()
	var o Options
	if opt != nil {
		o = *opt
	}
	if o.Open == nil {
		o.Open = func() store.Store {
			if seed%2 == 0 {
				return memstore.New()
			}
			return storewrap.NewEager(memstore.New())
		}
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	var r Result
	synctest.Test(t, func(t *testing.T) { r = newWorld(seed, o).run() })
	return r
}

// A world is one run.
type world struct {
	seed    uint64
	dir     string
	tell    bool
	finally bool // jobs have finally parts
	plainly bool // there are no rescues
	mix     mix
	start   time.Time
	witness *promise.Witness
	store   store.Store // the witness's

	calm   atomic.Bool   // there are no more faults
	calmed chan struct{} // closed then
	over   chan struct{} // closed when everything that still hangs has to end
	life   sync.WaitGroup
	alive  sync.WaitGroup // workers, until the last process that each starts

	workers  []*worker
	client   *worker
	plans    *plans       // nil if there are none
	expected *expected    // nil if it is no world of expectations
	night    atomic.Int64 // until when no worker reaches the store, in nanoseconds since the start

	mu       sync.Mutex
	programs map[string]*program // by serial
	acts     map[*act]bool       // what steps are doing
	events   []event
	told     bool // what comes now is just the end of goroutines
	index    map[courier.ExecutionID]int
	asked    map[string]courier.ExecutionID // by idempotency key
	counts   map[string]int
	changes  map[courier.ExecutionID][]change
	resumed  map[courier.ExecutionID]int // resumes with changes that were acknowledged
	mends    map[string]int              // by job and version
	strange  []error
	reruns   int                          // how many were begun
	lost     map[int64]time.Duration      // when executions last lost their workspace
	skipped  map[string]bool              // steps that operators have skipped, by execution and id
	back     map[courier.ExecutionID]bool // of which steps run again
	// losses are the passes of executions when they lost their workspace. Of each pass the
	// execution keeps only the last loss.
	losses  map[courier.ExecutionID][]courier.RepairPass
	cancels map[courier.ExecutionID]int // cancels that took effect; an abort counts as two
}

func newWorld(seed uint64, o Options) *world {
	w := &world{
		seed: seed, dir: o.Dir, tell: o.Tell, finally: o.Finally, plainly: o.Plain, start: time.Now(), calmed: make(chan struct{}), over: make(chan struct{}),
		programs: make(map[string]*program),
		index:    make(map[courier.ExecutionID]int), asked: make(map[string]courier.ExecutionID),
		counts: make(map[string]int), acts: make(map[*act]bool), changes: make(map[courier.ExecutionID][]change), resumed: make(map[courier.ExecutionID]int), mends: make(map[string]int),
		lost: make(map[int64]time.Duration), skipped: make(map[string]bool), back: make(map[courier.ExecutionID]bool),
		losses: make(map[courier.ExecutionID][]courier.RepairPass), cancels: make(map[courier.ExecutionID]int),
	}
	w.mix = newMix(w.dice("mix"))
	if w.hasRescues() {
		w.mix.bad = max(w.mix.bad, 0.3) // there is something to rescue
	}
	s := o.Open()
	w.witness = promise.Watch(s)
	w.witness.OnEffect = w.effect
	_, agenda := s.(schedule.Store)
	_, chains := s.(chain.Store)
	if agenda && chains {
		w.plans = newPlans(w.dice("plans"))
	}
	if o.Calendars {
		for draws := w.dice("plans with calendars"); w.plans == nil || w.plans.mix.schedules == 0; {
			w.plans = newPlans(draws)
		}
		w.plans.calendars = newCalendars()
		w.setCalendars(w.dice("calendars"), s)
	}
	if o.Expectations {
		w.await()
		return w
	}
	if w.plans == nil {
		w.store = w.witness.Store()
		return w
	}
	w.mix.trouble += w.plans.mix.night
	if o.Calendars {
		day := 24 * time.Hour
		time.Sleep(day - time.Since(w.start.Truncate(day)) - w.mix.trouble*2/3)
		w.start = time.Now()
	}
	for i, kept := range w.dice("kept").Perm(2 * w.plans.mix.schedules)[:w.plans.mix.schedules] {
		w.plans.schedules = append(w.plans.schedules, &planned{name: fmt.Sprintf("schedule-%d", i), kept: kept%2 == 0})
	}
	w.witness.OnCreated = func(x *courier.Execution) { w.note(x.By, "created", w.number(x.ID)) }
	w.witness.OnTick = w.tick
	w.store = w.witness.Planned()
	return w
}

// A mix has the frequencies of events in a world. Most of them are zero in any one world, so that
// rare meetings of a few faults are not drowned by others.
type mix struct {
	workers, jobs, executions     int
	trouble                       time.Duration // until calm comes
	slots                         int
	before, after, late, slow     float64 // of calls
	crash                         float64 // of calls of a worker
	crashes, stops, pauses        float64 // per minute and worker
	outages                       float64 // per minute
	fails, permanent, panics      float64 // of attempts
	hangs, ignores, never, drawls float64
	bad                           float64 // of the iterations of steps in loops
	poison                        float64 // of steps, all of whose attempts kill their process
	requests, limits, edits       float64 // per minute
	holds, delays, timeouts, dups float64 // of executions
}

func newMix(r *rand.Rand) mix {
	some := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	m := mix{
		workers: 1 + r.IntN(4), jobs: 1 + r.IntN(3), executions: 1 + r.IntN(6),
		trouble: time.Duration(20+r.IntN(160)) * time.Second,
		slots:   []int{1, 2, 3, 64, 64}[r.IntN(5)],
		before:  some(0.3), after: some(0.3), late: some(0.2), slow: some(0.2), crash: some(0.05),
		crashes: some(6), stops: some(6), pauses: some(4), outages: some(2),
		fails: some(0.5), permanent: some(0.1), panics: some(0.2), hangs: some(0.2), ignores: some(0.2), never: some(0.1), drawls: some(0.6), poison: some(0.05), bad: some(0.4),
		requests: some(60), limits: some(20), edits: some(6),
		holds: some(0.5), delays: some(0.5), timeouts: some(0.5), dups: some(0.8),
	}
	if r.IntN(8) == 0 { // three workers in a row take their time to be lost
		m.poison, m.trouble = 0.1, m.trouble+4*time.Minute
	}
	if m.slots < 64 {
		m.never = 0 // or no slot is left in the end
	}
	return m
}

// dice returns random numbers that depend on the seed and the key only.
func (w *world) dice(key ...any) *rand.Rand {
	h := fnv.New64a()
	for _, k := range key {
		switch k := k.(type) {
		case string:
			h.Write([]byte(k))
		case int:
			h.Write(binary.LittleEndian.AppendUint64(nil, uint64(k)))
		default:
			panic(fmt.Sprintf("no key: %T", k))
		}
		h.Write([]byte{0xff})
	}
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// spread returns a duration around d, to the nanosecond.
func spread(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(2*d))) + 1
}

// An event is something that happened.
type event struct {
	at   time.Duration
	who  string
	what string
	n    [3]int64
}

func (w *world) note(who, what string, n ...int64) {
	e := event{at: time.Since(w.start), who: who, what: what}
	copy(e.n[:], n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.told {
		w.events = append(w.events, e)
		w.counts[what]++
	}
}

// wrong records an error that is not a broken promise.
func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strange = append(w.strange, fmt.Errorf(format, args...))
}

// number returns the number of an execution, in the order of creation.
func (w *world) number(id courier.ExecutionID) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := w.index[id]
	if !ok {
		n = len(w.index) + 1
		w.index[id] = n
	}
	return int64(n)
}

// effect records a write.
func (w *world) effect(c *storewrap.Call) {
	switch r := c.Request.(type) {
	case []store.NewExecution:
		for _, x := range c.Result.([]store.Enqueued) {
			w.note(r[0].By, "enqueue", w.number(x.Execution.ID))
		}
	case store.ClaimRequest:
		for _, x := range c.Result.(store.Claims).List {
			w.note(r.Worker, "claim", w.number(x.Execution.ID), x.Seq)
			w.taken(w.number(x.Execution.ID), r.Worker)
		}
	case store.RenewRequest:
		w.note(r.Worker, "renew", int64(len(c.Result.([]store.Renewed))))
	case store.Transition:
		w.note(string(r.To), "apply", w.number(r.Execution), r.Seq, int64(r.Position.Step))
		w.countFailures(&r)
	case store.Request:
		w.note(string(r.Kind), "ask", w.number(r.Execution))
		w.changed(&r)
		w.lose(&r)
		w.cancelled(r.Execution, r.Kind)
	case [2]string:
		w.note(r[0]+"="+r[1], "set")
	default:
		w.planEffect(c.Request, c.Result)
	}
}

// countFailures counts the failures that a transition records, by reason.
func (w *world) countFailures(t *store.Transition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.To == courier.Failed {
		w.counts["failed by "+string(t.Failure.Reason)]++
	}
	for i := range t.Ended {
		if r := &t.Ended[i]; r.FailedLoop != nil {
			w.counts["item failed"]++
			w.counts["item failed by "+string(r.Reason)]++
		}
	}
}

// trace returns the hash of all events. Events at the same instant have no order.
func (w *world) trace() uint64 {
	slices.SortStableFunc(w.events, func(a, b event) int {
		if a.at != b.at {
			return int(min(1, max(-1, a.at-b.at)))
		}
		return strings.Compare(a.line(), b.line())
	})
	h := fnv.New64a()
	for i := range w.events {
		e := &w.events[i]
		h.Write([]byte(e.who))
		h.Write([]byte(e.what))
		b := binary.LittleEndian.AppendUint64(nil, uint64(e.at))
		for _, n := range e.n {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		h.Write(b)
	}
	return h.Sum64()
}

func (e *event) line() string {
	text := fmt.Sprintf("%13.9f %s %s", e.at.Seconds(), e.who, e.what)
	for _, n := range e.n {
		text += fmt.Sprintf(" %d", n)
	}
	return text
}

func (w *world) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", w.mix)
	if w.plans != nil {
		fmt.Fprintf(&b, "%+v\n", w.plans.mix)
		for _, s := range w.plans.schedules {
			raw, _ := json.Marshal(s.def)
			fmt.Fprintf(&b, "schedule (kept: %t): %s\n", s.kept, raw)
		}
	}
	for _, serial := range slices.Sorted(maps.Keys(w.programs)) {
		raw, _ := json.Marshal(w.programs[serial].job)
		fmt.Fprintf(&b, "program %s: %s\n", serial, raw)
	}
	for i := range w.events {
		b.WriteString(w.events[i].line() + "\n")
	}
	w.tellExecutions(&b)
	return b.String()
}

// tellExecutions writes what the store has recorded of each execution, by number: the changes of
// its state, the changes that operators made, and the ends of attempts.
func (w *world) tellExecutions(b *strings.Builder) {
	for _, id := range w.witness.Executions() {
		x, err := w.store.Execution(context.Background(), id)
		if err != nil {
			continue
		}
		repairs, _ := json.Marshal(x.Repairs)
		fmt.Fprintf(b, "execution %d, %s: %s, version %d, %d failed items, repairs %s\n", w.numberOf(id), id, x.State, x.Version, x.FailedItems, repairs)
		for after := int64(0); ; {
			page, err := w.store.Audit(context.Background(), store.AuditFilter{Execution: id, After: after})
			if err != nil || len(page) == 0 {
				break
			}
			for i := range page {
				a := &page[i]
				after = a.Seq
				fmt.Fprintf(b, "  %4d %s > %s", a.Seq, a.From, a.To)
				if a.Step != nil {
					fmt.Fprintf(b, " %s attempt %d", visitName(*a.Step, a.Iteration), a.Attempt)
				}
				fmt.Fprintf(b, " %s %s\n", a.Reason, a.Error)
			}
		}
	}
}

// programOf returns the program with a serial; nil if there is none.
func (w *world) programOf(serial string) *program {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.programs[serial]
}

// programFor returns the program of an execution.
func (w *world) programFor(x *courier.Execution) *program {
	var params struct {
		Program string `json:"program"`
	}
	json.Unmarshal(x.Params, &params)
	return w.programOf(params.Program)
}

// wait lets time pass. It reports false when the world is over first.
func (w *world) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.over:
		return false
	}
}

// spawn starts something that the world waits for.
func (w *world) spawn(f func()) {
	w.life.Add(1)
	go func() {
		defer w.life.Done()
		f()
	}()
}

// maxCalm is the maximum time until everything has ended after the last fault.
const maxCalm = 4 * time.Hour

// run is the whole life of the world.
func (w *world) run() Result {
	ctx := context.Background()
	w.populate()
	w.wait(w.mix.trouble)
	w.calm.Store(true)
	close(w.calmed)
	w.note("world", "calm")
	w.alive.Wait()
	ids, err := w.settle(ctx)
	if w.expected != nil {
		w.expected.conclude()
	}
	w.finish()
	if err == nil {
		err = w.check(ctx, ids)
	}
	r := Result{
		Seed: w.seed, Err: err, Trace: w.trace(), Virtual: time.Since(w.start),
		Executions: len(ids), Events: w.counts,
	}
	if err != nil || w.tell {
		r.Story = w.story()
	}
	return r
}
