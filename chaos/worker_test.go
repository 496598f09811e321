package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
	"github.com/courierhq/courier/store/storewrap"
)

// orders are what a worker process is told.
type orders struct {
	Name  string // also of its engine and its journals
	URL   string
	Dir   string
	Lease time.Duration // 0: the default, as for the others
	Poll  time.Duration
	Slots int
	Plan  plan
}

// A plan is where a process ends, or stands still. The zero value is nowhere.
type plan struct {
	Point string // see points
	Phase phase
	N     int // at which passage
	// Freeze lets the process stand still until somebody lets it go on; the call
	// at which it does is then made whatever became of its context.
	Freeze bool
}

type phase string

const (
	before phase = "before"
	during phase = "during"
	after  phase = "after"
	at     phase = "at" // outside of the store
)

func (p plan) String() string { return fmt.Sprintf("%s %s (%d)", p.Phase, p.Point, p.N) }

// obey is the main function of a worker process.
func obey(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = (&worker{orders: o}).run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A worker is a worker process.
type worker struct {
	orders
	passed  atomic.Int64 // how often the point of the plan was passed
	reached *journal
	engine  *engine.Engine
	stop    chan os.Signal
	helping sync.Once
}

func (w *worker) run() error {
	w.stop = make(chan os.Signal, 1)
	signal.Notify(w.stop, syscall.SIGTERM)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever has started it is gone
	}()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, w.URL)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := w.open(ctx, pool)
	if err != nil {
		return err
	}
	defer s.Close()
	calls, err := openJournal(w.file("calls"))
	if err != nil {
		return err
	}
	notes, err := openJournal(w.file("notes"))
	if err != nil {
		return err
	}
	if w.reached, err = openJournal(w.file("reached")); err != nil {
		return err
	}
	heard, err := openJournal(w.file("heard"))
	if err != nil {
		return err
	}
	types := &steps{notes: notes, point: w.pass}
	w.engine = engine.New(recorded(storewrap.Intercept(impatient{s}, w.intercept), calls), types.registry(), &engine.Options{
		Worker: w.Name, Workspace: filepath.Join(w.Dir, "workspaces"), WorkspaceID: "chaos",
		Slots: w.Slots, Lease: w.Lease, Poll: w.Poll, Around: w.around,
		Subscribers: subscribers(&ear{to: heard, point: w.pass}),
		Log:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err := w.engine.Start(ctx); err != nil {
		return err
	}
	switch w.Plan.Point {
	case "enqueue":
		go w.enqueue(ctx)
	case "start chain":
		go w.startChains(ctx)
	}
	<-w.stop
	return w.engine.Stop(ctx)
}

func (w *worker) file(suffix string) string { return filepath.Join(w.Dir, w.Name+"."+suffix) }

// open opens the store, as soon as the server lets it.
func (w *worker) open(ctx context.Context, pool *pgxpool.Pool) (*pgstore.Store, error) {
	for {
		s, err := pgstore.New(ctx, pool, nil)
		if err == nil {
			return s, nil
		}
		select {
		case <-w.stop:
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func recorded(s store.Store, calls *journal) store.Store {
	return storewrap.Intercept(s, (&recorder{to: calls}).intercept)
}

// intercept ends the process where it is told to.
func (w *worker) intercept(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
	if w.Plan.Point == "" || name(c) != w.Plan.Point {
		return do(ctx)
	}
	switch w.Plan.Phase {
	case before:
		if w.due() {
			w.end(c.Execution)
			ctx = context.WithoutCancel(ctx)
		}
	case during:
		if w.due() {
			most := 3 * time.Millisecond
			if slices.Contains(automaticPoints, w.Plan.Point) {
				most *= 3 // these are several statements
			}
			time.AfterFunc(rand.N(most), func() { w.end(c.Execution) })
		}
	}
	err := do(ctx)
	if nothing(c.Result) {
		return err
	}
	if w.Plan.Phase == after && w.due() {
		w.end(c.Execution)
	}
	return err
}

// nothing reports whether a call for something to do has brought nothing.
func nothing(result any) bool {
	switch got := result.(type) {
	case store.Claims:
		return len(got.List) == 0
	case schedule.DueList:
		return len(got.List) == 0
	case notify.DueList:
		return len(got.List) == 0
	}
	return false
}

// pass ends the process at a point outside of the store, if it is told to.
func (w *worker) pass(point string) {
	if point == w.Plan.Point && w.due() {
		w.end("")
	}
}

// due reports whether this passage is the one.
func (w *worker) due() bool { return w.passed.Add(1) == int64(w.Plan.N) }

// end ends the process, or lets it stand still, at a call about an execution.
func (w *worker) end(id courier.ExecutionID) {
	n := note{What: w.Plan.String(), Execution: id}
	n.At, _ = clocks()
	w.reached.write(&n)
	sig := syscall.SIGKILL
	if w.Plan.Freeze {
		sig = syscall.SIGSTOP
	}
	begun := time.Now()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		panic(err)
	}
	if sig == syscall.SIGKILL {
		select {}
	}
	standStill(begun)
}

// standStill returns after the process has stood still, which it was told to at an
// instant: a signal takes a moment to stop all threads, on a busy machine longer
// than what comes next does.
func standStill(begun time.Time) {
	const tick, still = 5 * time.Millisecond, 300 * time.Millisecond // leases are longer
	for last := begun; last.Sub(begun) < 10*time.Second; {
		now := time.Now()
		if now.Sub(last) > still {
			return
		}
		last = now
		time.Sleep(tick)
	}
	panic("the process does not stand still")
}

// points are where a process can end. Those of one word with a phase are calls.
var points = []string{
	"claim", "enqueue", "renew",
	"first start", "progress", "completion", "retry", "failure", "pausing", "cancellation", "hand-over",
	"ask pause", "ask resume", "ask cancel",
}

// spots are the points outside of the store.
var spots = []string{"step began", "step ends", "step ended", "cleanup", "rollback"}

// rare are points that a worker does not pass often.
var rare = []string{"claim", "renew", "retry", "failure", "hand-over", "rollback", "cleanup"}

// name is the point that a call is.
func name(c *storewrap.Call) string {
	if c.Method == "DueSchedules" {
		return "due"
	}
	switch q := c.Request.(type) {
	case []schedule.Firing:
		return nameFiring(q)
	case notify.DueRequest:
		return "take"
	case []notify.Outcome:
		return "settle"
	case []chain.NewExecution:
		return "start chain"
	case chain.Request:
		return "ask chain"
	case store.ClaimRequest:
		return "claim"
	case []store.NewExecution:
		return "enqueue"
	case store.RenewRequest:
		return "renew"
	case store.Request:
		return "ask " + string(q.Kind)
	case store.Transition:
		switch {
		case q.Chain != "" && q.To.Ended():
			return "member's end"
		case q.To == courier.Running && len(q.Ended) == 0:
			return "first start"
		case q.To == courier.Running:
			return "progress"
		case q.To == courier.Queued && q.Failure != nil:
			return "retry"
		}
		return map[courier.State]string{
			courier.Queued: "hand-over", courier.Completed: "completion", courier.Failed: "failure",
			courier.Paused: "pausing", courier.Cancelled: "cancellation",
		}[q.To]
	}
	return ""
}

// around does what leads to the point of the plan, where that would be long in
// coming.
func (w *worker) around(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
	if w.Plan.Freeze {
		return next(ctx)
	}
	ask := func(request func(context.Context, courier.ExecutionID, courier.By) (courier.Execution, error)) {
		// An answer that says no, or none, is no reason to stop working.
		_, _ = request(context.WithoutCancel(ctx), job.Execution(), courier.By{Actor: w.Name})
	}
	switch w.Plan.Point {
	case "renew":
		select {
		case <-time.After(w.Lease / 2):
		case <-ctx.Done():
		}
	case "pausing", "ask pause":
		ask(w.engine.Pause)
	case "ask resume":
		ask(w.engine.Pause)
		ask(func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
			return w.engine.Resume(ctx, id, &courier.ResumeOptions{By: by})
		})
	case "cancellation", "ask cancel":
		ask(func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
			return w.engine.Cancel(ctx, id, &courier.CancelOptions{By: by})
		})
	case "ask chain":
		if x, err := w.engine.Executions().Get(ctx, job.Execution()); err == nil && x.Chain != "" {
			_, _ = w.engine.Chains().Pause(context.WithoutCancel(ctx), x.Chain, courier.By{Actor: w.Name})
			_, _ = w.engine.Chains().Resume(context.WithoutCancel(ctx), x.Chain, courier.By{Actor: w.Name})
		}
	case "hand-over":
		w.helping.Do(func() { w.stop <- syscall.SIGTERM })
	}
	return next(ctx)
}

// enqueue creates executions until the process ends. Somebody else makes sure
// of them afterwards.
func (w *worker) enqueue(ctx context.Context) {
	for i := range 100 {
		_, err := w.engine.Enqueue(ctx, "plain", &courier.EnqueueOptions{IdempotencyKey: keyOf(w.Name, i)})
		if err != nil {
			return
		}
	}
}

// keyOf is the key of the n-th execution that a process creates.
func keyOf(process string, n int) string { return fmt.Sprintf("%s-%d", process, n) }
