package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// patience is how long anything may take.
const patience = 2 * time.Minute

// A world is a database with workers and people.
type world struct {
	testing.TB
	url    string
	dir    string         // of the processes' journals and workspaces
	limits map[string]int // that hold, by scope; 0 is none
	// zombies says that processes may go on when their executions are another's
	// already; forgetful, that the server may lose its memory, and with it claims
	// on which nothing depends yet.
	zombies, forgetful bool
	orders             orders // of workers that kill themselves

	pool   *pgxpool.Pool
	store  *pgstore.Store
	people *engine.Engine // which enqueue and ask; it runs nothing
	calls  *journal
	watch  *watch
	auto   *automation // what goes on by itself; nil if nothing does

	mu    sync.Mutex
	procs []*process
	count int
	acked []courier.ExecutionID

	// Who does not know whether a request was heard waits a while. Each of them may
	// take effect at any time, and dozens are more than the search can try.
	later sync.Map // courier.ExecutionID to time.Time
}

// A process is a worker process.
type process struct {
	name     string
	cmd      *exec.Cmd
	stderr   *os.File
	ended    chan struct{} // closed when it has
	err      error         // then
	expected atomic.Bool   // its death is no surprise
}

// newWorld makes a world in the database. Limits hold from its beginning.
func newWorld(t testing.TB, url string, limits map[string]int) *world {
	t.Helper()
	w := &world{TB: t, url: url, dir: t.TempDir(), limits: make(map[string]int), orders: ordinary}
	for _, p := range pipelines {
		w.limits["job:"+p.job.Name] = p.job.Limit
	}
	maps.Copy(w.limits, limits)
	ctx := t.Context()
	var err error
	if w.pool, err = pgxpool.New(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	if _, err := pgstore.Migrate(ctx, w.pool, nil); err != nil {
		t.Fatal(err)
	}
	if w.store, err = pgstore.New(ctx, w.pool, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if limits[""] == 0 {
		w.set(store.LimitSetting(""), "0")
	}
	for scope, n := range limits {
		w.set(store.LimitSetting(scope), strconv.Itoa(n))
	}
	if w.calls, err = openJournal(filepath.Join(w.dir, "people.calls")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.calls.close() })
	types := &steps{}
	w.people = engine.New(recorded(w.store, w.calls), types.registry(), &engine.Options{
		Worker: "people", Workspace: filepath.Join(w.dir, "people"), WorkspaceID: "people", Subscribers: subscribers(nil),
	})
	for _, p := range pipelines {
		if _, err := w.people.Jobs().Define(ctx, p.job, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(w.killAll)
	w.watch = newWatch(url, w.limits)
	t.Cleanup(w.watch.end)
	return w
}

func (w *world) set(key, value string) {
	w.Helper()
	if err := w.store.Set(w.Context(), key, value); err != nil {
		w.Fatal(err)
	}
}

// spawn starts a worker process. One that can't be started has ended.
func (w *world) spawn(o orders) *process {
	w.Helper()
	w.mu.Lock()
	w.count++
	o.Name = fmt.Sprintf("w%d", w.count)
	w.mu.Unlock()
	o.Dir, o.URL = w.dir, with(w.url, "pool_max_conns=4")
	p := &process{name: o.Name, ended: make(chan struct{})}
	if err := p.start(o); err != nil {
		w.Errorf("worker %s: %v", p.name, err)
		p.err = err
		close(p.ended)
		return p
	}
	w.mu.Lock()
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	go func() {
		p.err = p.cmd.Wait()
		p.stderr.Close()
		close(p.ended)
	}()
	return p
}

// with returns the URL of a database, of one or several servers, with a
// parameter more.
func with(url, parameter string) string {
	if strings.Contains(url, "?") {
		return url + "&" + parameter
	}
	return url + "?" + parameter
}

func (p *process) start(o orders) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), ordersVariable+"="+string(text))
	p.cmd.SysProcAttr = dieWithParent()
	if p.stderr, err = os.Create(filepath.Join(o.Dir, o.Name+".stderr")); err != nil {
		return err
	}
	p.cmd.Stderr = p.stderr
	if _, err := p.cmd.StdinPipe(); err != nil { // which ends when this process does
		return err
	}
	return p.cmd.Start()
}

// signal sends a process a signal; one that has ended is no error.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// signal sends a process a signal that it can get.
func (w *world) signal(p *process, s syscall.Signal) {
	w.Helper()
	if err := p.signal(s); err != nil {
		w.Error(err)
	}
}

// until waits until it is so.
func (w *world) until(what string, is func() bool) {
	w.Helper()
	w.within(patience, what, is)
}

// within waits until it is so, for as long as it may take.
func (w *world) within(most time.Duration, what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(most); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Errorf("waited for %v until %s", most, what)
			return
		}
	}
}

// kill kills a process.
func (w *world) kill(p *process) {
	w.Helper()
	p.expected.Store(true)
	w.signal(p, syscall.SIGKILL)
	<-p.ended
}

// working reports whether a worker has begun a step.
func (w *world) working(p *process) bool {
	info, err := os.Stat(filepath.Join(w.dir, p.name+".notes"))
	return err == nil && info.Size() > 0
}

// begins waits until a worker has begun a step. What one has written that does not is told.
func (w *world) begins(p *process) {
	w.Helper()
	ended := false
	w.until("worker "+p.name+" works", func() bool {
		select {
		case <-p.ended:
			ended = true
		default:
		}
		return ended || w.working(p)
	})
	if !w.working(p) {
		w.Errorf("worker %s has begun no step; it has ended: %v; it has written:\n%s", p.name, ended, w.written(p))
	}
}

// killAll ends the processes that are left.
func (w *world) killAll() {
	w.mu.Lock()
	procs := w.procs
	w.mu.Unlock()
	for i, p := range procs {
		p.expected.Store(true)
		p.signal(syscall.SIGKILL)
		<-p.ended
		if w.Failed() && i >= len(procs)-3 {
			w.Logf("worker %s has written:\n%s", p.name, w.written(p))
		}
	}
}

// stopAll stops the processes that are left as a supervisor would.
func (w *world) stopAll() {
	w.Helper()
	w.mu.Lock()
	procs := w.procs
	w.mu.Unlock()
	for _, p := range procs {
		w.signal(p, syscall.SIGTERM)
	}
	for _, p := range procs {
		select {
		case <-p.ended:
		case <-time.After(patience):
			w.Errorf("worker %s has not stopped", p.name)
			w.kill(p)
		}
		if p.err != nil && !p.expected.Load() && !w.stoppedEarly(p) {
			w.Errorf("worker %s: %v\n%s", p.name, p.err, w.written(p))
		}
	}
}

// stoppedEarly reports whether SIGTERM has ended a worker before it listened for it, as the
// start of a process takes long on a busy machine. It has begun no step.
func (w *world) stoppedEarly(p *process) bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM && !w.working(p)
}

// faults reports what processes wrote that no process should.
func (w *world) faults() {
	w.Helper()
	w.mu.Lock()
	procs := w.procs
	w.mu.Unlock()
	for _, p := range procs {
		text, err := os.ReadFile(p.stderr.Name())
		if err != nil {
			w.Error(err)
		}
		if bytes.Contains(text, []byte("DATA RACE")) || bytes.Contains(text, []byte("panic")) {
			w.Errorf("worker %s has written:\n%s", p.name, w.written(p))
		}
	}
}

// written is the end of what a process wrote to its standard error.
func (w *world) written(p *process) []byte {
	text, err := os.ReadFile(p.stderr.Name())
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4000):]
}

// enqueue creates an execution, and repeats that until it is acknowledged or the
// test is over.
func (w *world) enqueue(job string, opt courier.EnqueueOptions) courier.ExecutionID {
	w.Helper()
	if opt.IdempotencyKey == "" {
		opt.IdempotencyKey = fmt.Sprintf("people-%d", rand.Uint64())
	}
	for deadline := time.Now().Add(patience); ; {
		x, err := w.people.Enqueue(w.Context(), job, &opt)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.Contains(w.acked, x.ID) {
				w.acked = append(w.acked, x.ID)
			}
			return x.ID
		}
		if w.Context().Err() != nil {
			return ""
		}
		if time.Now().After(deadline) {
			w.Errorf("enqueue: %v", err)
			return ""
		}
	}
}

// enqueueAny creates an execution of any pipeline.
func (w *world) enqueueAny() {
	w.Helper()
	var opt courier.EnqueueOptions
	if rand.IntN(2) == 0 {
		opt.LimitKeys = []string{fmt.Sprintf("k%d", rand.IntN(3))}
	}
	opt.Priority = int16(rand.IntN(3))
	w.enqueue(pipelines[rand.IntN(len(pipelines))].job.Name, opt)
}

// in returns the executions in some states.
func (w *world) in(states ...courier.State) ([]courier.Execution, error) {
	return w.store.Executions(w.Context(), store.Filter{States: states, Limit: 1000})
}

var unended = []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Failed}

// load keeps a number of executions going, which people pause, resume and
// cancel at random, until the returned function is called.
func (w *world) load(n int) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			list, err := w.in(unended...)
			if err != nil {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			for range n - len(list) {
				if ctx.Err() == nil {
					w.enqueueAny()
				}
			}
			if len(list) > 0 {
				w.bother(&list[rand.IntN(len(list))])
			}
			w.resume()
			time.Sleep(20 * time.Millisecond)
		}
	})
	stop = func() {
		cancel()
		group.Wait()
	}
	w.Cleanup(stop)
	return stop
}

// bother asks something of an execution. That it is not allowed, or that nobody
// knows whether it was heard, is as it may be.
func (w *world) bother(x *courier.Execution) {
	by := fmt.Sprintf("somebody %d", rand.IntN(1000))
	switch n := rand.IntN(30); {
	case n < 1:
		_, _ = w.people.Cancel(w.Context(), x.ID, &courier.CancelOptions{By: courier.By{Actor: by}})
	case n < 8:
		_, _ = w.people.Pause(w.Context(), x.ID, courier.By{Actor: by})
	case n < 10:
		_, _ = w.people.Resume(w.Context(), x.ID, &courier.ResumeOptions{By: courier.By{Actor: by}})
	case n < 14:
		_, _ = w.people.Executions().Get(w.Context(), x.ID)
	}
}

// resume lets all that is paused or failed go on.
func (w *world) resume() {
	list, err := w.in(courier.Paused, courier.Failed)
	if err != nil {
		return
	}
	for i := range list {
		id := list[i].ID
		if at, ok := w.later.Load(id); ok && time.Now().Before(at.(time.Time)) {
			continue
		}
		_, err := w.people.Resume(w.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "somebody"}})
		if _, refused := errors.AsType[*courier.TransitionError](err); err != nil && !refused {
			w.later.Store(id, time.Now().Add(500*time.Millisecond))
		}
	}
}

// settle waits until all executions have ended. People resume what waits for
// them.
func (w *world) settle() {
	w.Helper()
	var list []courier.Execution
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if list, err = w.in(unended...); err == nil && len(list) == 0 {
			return
		}
		w.resume()
	}
	w.Errorf("%d executions have not ended after %v: %v", len(list), patience, err)
	for i := range list {
		w.Logf("%s: %s of %s, %s", list[i].ID, list[i].Job, list[i].Worker, list[i].Status(time.Now()))
	}
}
