package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgproxy"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
	"github.com/courierhq/courier/store/storewrap"
)

// The times of a trial. A cut costs a lease at most, when it hides what a claim
// has brought. A trial that is late has twice the lease when it is tried again.
const (
	cutLease = time.Second
	cutPoll  = 50 * time.Millisecond
	cutLimit = time.Minute      // for all that is done in a trial
	cutCall  = 10 * time.Second // for a call of the store
)

// A lane is where one trial runs after the other: a schema of its own, so that
// trials beside each other share neither news nor locks.
type lane struct {
	schema, dir string
	past        *pgxpool.Pool // of all lanes, past the proxies
	direct      *pgstore.Store
	warm        *front
}

func newLane(ctx context.Context, past *pgxpool.Pool, number int, dir string) (*lane, error) {
	l := &lane{schema: fmt.Sprintf("lane_%d", number), dir: dir, past: past}
	if _, err := pgstore.Migrate(ctx, past, &pgstore.MigrateOptions{Schema: l.schema}); err != nil {
		return nil, err
	}
	if _, err := past.Exec(ctx, "create table "+l.schema+".orders (id text primary key)"); err != nil {
		return nil, err
	}
	var err error
	if l.direct, err = pgstore.New(ctx, past, &pgstore.Options{Schema: l.schema, PollOnly: true}); err == nil {
		err = l.direct.Set(ctx, store.LimitSetting(""), "0")
	}
	if err == nil {
		l.warm, err = l.open(ctx)
	}
	return l, err
}

// A front is a store with all its connections through a proxy.
type front struct {
	tap   tap
	proxy *pgproxy.Proxy
	pool  *pgxpool.Pool
	store *pgstore.Store
}

// open opens a front to the lane's schema.
func (l *lane) open(ctx context.Context) (*front, error) {
	f := &front{tap: make(tap)}
	config := l.past.Config()
	server := net.JoinHostPort(config.ConnConfig.Host, strconv.Itoa(int(config.ConnConfig.Port)))
	var err error
	if f.proxy, err = pgproxy.Listen(server); err != nil {
		return nil, err
	}
	f.proxy.OnMessage(f.tap.watch)
	host, port, _ := net.SplitHostPort(f.proxy.Addr())
	n, _ := strconv.Atoi(port)
	config.ConnConfig.Host, config.ConnConfig.Port = host, uint16(n)
	config.MaxConns = 4
	if f.pool, err = pgxpool.NewWithConfig(ctx, config); err == nil {
		f.store, err = pgstore.New(ctx, f.pool, &pgstore.Options{Schema: l.schema})
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// mend replaces the connections that a trial has left behind broken.
func (f *front) mend(ctx context.Context) error {
	for _, c := range f.pool.AcquireAllIdle(ctx) {
		if err := c.Ping(ctx); err != nil {
			c.Conn().Close(ctx)
		}
		c.Release()
	}
	_, err := f.store.Renew(ctx, store.RenewRequest{For: cutLease})
	if err != nil {
		_, err = f.store.Renew(ctx, store.RenewRequest{For: cutLease})
	}
	return err
}

func (f *front) close() {
	if f.store != nil {
		f.store.Close()
	}
	if f.pool != nil {
		f.pool.Close()
	}
	f.proxy.OnMessage(nil)
	f.proxy.Close()
}

// A trial is one run of a scenario in which a connection is cut, or none.
type trial struct {
	*lane
	scenario *scenario
	job      string // its name, and that of its queue
	cold     bool   // without connections to begin with
	at       *cut
	lease    time.Duration

	ctx context.Context
	end context.CancelFunc
	*front
	blade *blade

	first, second *engine.Engine
	labors        labors
	gate          chan struct{} // closed when steps that wait may go on
	started       chan struct{} // receives when one begins to wait

	ids     []courier.ExecutionID // acknowledged
	chained chain.Execution       // as it ended, if a chain was started
	failed  int                   // calls of clients
	lost    int                   // workers that an execution lost, at most
	hangs   bool
	took    time.Duration
	once    sync.Once

	mu     sync.Mutex
	errs   []error
	errors int // of the store, but for Apply, where several may share a statement
}

// try runs a trial to its end. Before it, so many in a row were late.
func (l *lane) try(s *scenario, number int, cold bool, at *cut, late int) *trial {
	tr := &trial{
		lane: l, scenario: s, job: fmt.Sprintf("%s_%d", s.name, number), cold: cold, at: at, lease: cutLease << late,
		gate: make(chan struct{}), started: make(chan struct{}, 100),
		blade: &blade{at: at, deaf: s.deaf, counts: make(map[kind]int)},
	}
	tr.labors.init()
	tr.ctx, tr.end = context.WithTimeout(context.Background(), cutLimit)
	defer tr.end()
	done := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		defer tr.stop()
		defer tr.countLost()
		tr.play()
	}()
	limit := time.NewTimer(cutLimit + cutLimit/2)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		tr.hangs = true
		buf := make([]byte, 1<<20)
		tr.report("it hangs, in spite of its deadline %v ago:\n%s", cutLimit/2, buf[:runtime.Stack(buf, true)])
	}
	tr.took = time.Since(start)
	return tr
}

// claims are the statements of a claim.
var claims = map[string]bool{
	"claim/queued_fast": true, "claim/queued_without_limits": true, "claim/queued_with_limits": true, "execution/list_latest_steps": true, "definition/load_by_id": true,
	"begin": true, "set": true, "claim/lock_limits": true, "commit": true, "rollback": true,
}

// late reports whether a lease ended that the cut is no reason for: only that
// of a claim can hide what the claim has brought, once.
func (tr *trial) late() bool {
	if tr.at != nil && claims[tr.at.statement] {
		return tr.lost > 1
	}
	return tr.lost > 0
}

// report notes what is wrong. Fatal ends the trial with that.
func (tr *trial) report(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.errs = append(tr.errs, fmt.Errorf(format, args...))
}

func (tr *trial) fatal(format string, args ...any) {
	tr.report(format, args...)
	runtime.Goexit()
}

func (tr *trial) err() error {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return errors.Join(tr.errs...)
}

// play runs the scenario and checks the result.
func (tr *trial) play() {
	tr.front = tr.warm
	if tr.owns() {
		var err error
		if tr.front, err = tr.open(tr.ctx); err != nil {
			tr.fatal("open: %v", err)
		}
	} else if tr.cold {
		tr.pool.Reset()
	}
	for scope, n := range tr.scenario.settings {
		if err := tr.direct.Set(tr.ctx, store.LimitSetting(scope), n); err != nil {
			tr.fatal("settings: %v", err)
		}
	}
	seen := storewrap.Intercept(tr.store, tr.see)
	tr.first, tr.second = tr.engine("first", seen), tr.engine("second", seen)
	if tr.scenario.beside {
		tr.second = tr.engine("second", tr.direct)
	}
	tr.blade.tap = tr.tap
	tr.proxy.OnMessage(tr.blade.judge)
	tr.scenario.act(tr)
	tr.stop()
	tr.check()
}

func (tr *trial) engine(name string, s store.Store) *engine.Engine {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "cut.do", tr.labor, nil)
	return engine.New(s, r, &engine.Options{
		Worker: tr.job + "/" + name, Workspace: tr.dir, WorkspaceID: "here", Queues: []string{tr.job},
		Slots: max(1, tr.scenario.slots), Lease: tr.lease, Poll: cutPoll, Grace: tr.lease, SoftStop: 5 * tr.lease,
	})
}

// stop stops the engines and closes all that was opened.
func (tr *trial) stop() {
	tr.once.Do(func() {
		past, cancel := context.WithTimeout(context.Background(), cutLimit)
		defer cancel()
		if tr.first != nil {
			tr.halt(tr.first)
			tr.halt(tr.second)
		}
		switch {
		case tr.front == nil:
		case tr.owns():
			tr.front.close()
		default:
			tr.proxy.OnMessage(tr.tap.watch)
			if err := tr.mend(past); err != nil {
				tr.report("renew after the trial: %v", err)
			}
		}
		for scope := range tr.scenario.settings {
			none := ""
			if scope == "" {
				none = "0"
			}
			if err := tr.direct.Set(past, store.LimitSetting(scope), none); err != nil {
				tr.report("settings: %v", err)
			}
		}
	})
}

// halt stops an engine without waiting for its steps.
func (tr *trial) halt(e *engine.Engine) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	start := time.Now()
	if err := e.Stop(now); err != nil {
		tr.report("%v", err)
	}
	if took := time.Since(start); took > 5*tr.lease {
		tr.report("an engine took %v to stop", took)
	}
}

// owns reports whether the front is the trial's own, and not the lane's.
func (tr *trial) owns() bool { return tr.cold && tr.scenario.fresh }

// see sees the engines' calls of the store: each returns in time, one cut makes
// one fail, and no worker is told that it lost a lease that nobody has taken.
func (tr *trial) see(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
	start := time.Now()
	err := do(ctx)
	if took := time.Since(start); took > cutCall && c.Method != "Await" && c.Method != "AwaitSchedules" {
		tr.report("%s took %v: %v", c.Method, took, err)
	}
	switch t, _ := c.Request.(store.Transition); {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, courier.ErrInvalid) || errors.Is(err, courier.ErrNotFound):
		tr.report("%s: %v", c.Method, err)
	case c.Method == "Apply":
		if errors.Is(err, courier.ErrLeaseLost) && !tr.taken(&t) {
			tr.report("transition %d of %s was refused while its worker had the lease: %v", t.Seq, t.Execution, err)
		}
	case !answered(err):
		tr.mu.Lock()
		tr.errors++
		n := tr.errors
		tr.mu.Unlock()
		if n > 1 || tr.at == nil {
			tr.report("error %d of the store: %s: %v", n, c.Method, err)
		}
	}
	return err
}

// taken reports whether another one has ended the lease of a transition, or
// claimed what the transition itself had handed over.
func (tr *trial) taken(t *store.Transition) bool {
	audit, err := tr.direct.Audit(context.Background(), store.AuditFilter{Execution: t.Execution, After: t.Seq - 1})
	if err != nil {
		tr.report("%v", err)
	}
	return slices.ContainsFunc(audit, func(e courier.AuditEntry) bool {
		if e.Step != nil {
			return false
		}
		again := t.To != courier.Running && e.Seq > t.Seq && e.To == string(courier.Running)
		return again || e.From == string(courier.Running) && (e.Reason == courier.ReasonWorkerLost || e.By != "")
	})
}

// start starts an engine.
func (tr *trial) start(e *engine.Engine) {
	if err := e.Start(tr.ctx); err != nil {
		tr.fatal("%v", err)
	}
}

// ask makes a call of a client's. Who gets an error asks again, and may learn
// that the request was granted. One cut makes one call fail at most.
func (tr *trial) ask(what string, f func(context.Context) error) {
	for {
		err := f(tr.ctx)
		if err == nil {
			return
		}
		if _, granted := errors.AsType[*courier.TransitionError](err); granted && tr.failed > 0 {
			return
		}
		if tr.failed++; tr.failed > 1 || tr.at == nil || answered(err) {
			tr.fatal("%s: call %d of a client's that fails: %v", what, tr.failed, err)
		}
	}
}

// answered reports whether an error is an answer that stays the same.
func answered(err error) bool {
	for _, e := range []error{courier.ErrNotFound, courier.ErrConflict, courier.ErrInvalid, courier.ErrLeaseLost} {
		if errors.Is(err, e) {
			return true
		}
	}
	_, refused := errors.AsType[*courier.TransitionError](err)
	return refused
}

// define saves the scenario's job.
func (tr *trial) define() {
	job := tr.scenario.job
	job.Name, job.Queue = tr.job, tr.job
	tr.ask("define", func(ctx context.Context) error {
		_, err := tr.first.Jobs().Define(ctx, job, nil)
		return err
	})
}

// enqueue creates an execution.
func (tr *trial) enqueue(opt *courier.EnqueueOptions) courier.ExecutionID {
	var x courier.Execution
	tr.ask("enqueue", func(ctx context.Context) (err error) {
		x, err = tr.first.Enqueue(ctx, tr.job, opt)
		return err
	})
	tr.ids = append(tr.ids, x.ID)
	return x.ID
}

// request makes an operator's request.
func (tr *trial) request(what string, f func(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error)) {
	tr.ask(what, func(ctx context.Context) error {
		_, err := f(ctx, tr.ids[0], courier.By{Actor: "ops"})
		return err
	})
}

// reaches waits until the execution is in a state, or has ended.
func (tr *trial) reaches(state courier.State) {
	for {
		var x courier.Execution
		tr.ask("look", func(ctx context.Context) (err error) {
			x, err = tr.store.Execution(ctx, tr.ids[0])
			return err
		})
		if x.State == state || x.State.Ended() { // an end that is not the right one is found later
			return
		}
		time.Sleep(cutPoll / 5)
	}
}

// waits waits until a step waits at the gate.
func (tr *trial) waits() {
	select {
	case <-tr.started:
	case <-tr.ctx.Done():
		tr.fatal("no step began within %v", cutLimit)
	}
}

// wait waits until all executions have ended.
func (tr *trial) wait() {
	for _, id := range tr.ids {
		tr.ask("wait", func(ctx context.Context) error {
			_, err := tr.first.Wait(ctx, id)
			return err
		})
	}
}

// resume is Resume of the first engine in the form of the other requests.
func (tr *trial) resume(ctx context.Context, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
	return tr.first.Resume(ctx, id, &courier.ResumeOptions{By: by})
}
