package promise

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/store"
)

// attempts knows which attempts of steps were started, and which are at work.
type attempts struct {
	started map[string]*attempt       // by execution, place and start number
	earlier map[string]bool           // places of which an attempt was executed
	owners  map[string]string         // the place and start number that have a directory or a side name
	atWork  map[string]map[string]int // by directory, then worker
}

func newAttempts() attempts {
	return attempts{make(map[string]*attempt), make(map[string]bool), make(map[string]string), make(map[string]map[string]int)}
}

// An attempt is one that the store has seen starting.
type attempt struct {
	worker      string
	token       store.Token // of the lease under which it was started
	interrupted bool        // so it may be started again
	over        bool        // its end was written
	clean       bool        // Cleanup was called
}

// name names an attempt by its start number; 0 stands for all of its place.
func name(x *shadow, of, step int, iteration []int, n int) string {
	return fmt.Sprintf("%s/%d/%s[%s]/%d", x.ID, of, x.identity(step), courier.FormatIteration(iteration), n)
}

func (a *attempts) of(x *shadow, s *courier.StepExecution) string {
	return name(x, x.Attempt, s.Step, s.Iteration, x.restart+s.Attempt)
}

// start notes that an attempt started.
func (a *attempts) start(x *shadow, s *courier.StepExecution) error {
	key := a.of(x, s)
	old := a.started[key]
	if old != nil && !old.interrupted {
		return breach("P4", x.ID, "attempt %d of step %s was started before: it has the same directory", s.Attempt, place(s.Step, s.Iteration))
	}
	a.started[key] = &attempt{worker: x.Worker, token: x.token}
	return nil
}

// end notes what a transition does to the attempts.
func (a *attempts) end(x *shadow, t *store.Transition) {
	for i := range t.Ended {
		if s := a.started[a.of(x, &t.Ended[i])]; s != nil {
			s.over = true
		}
	}
	if t.Interrupt && x.Current != nil {
		if s := a.started[a.of(x, x.Current)]; s != nil {
			s.interrupted = true
		}
	}
}

// Act is what an engine calls of a step.
type Act string

// The acts.
const (
	Execute  Act = "Execute"
	Cleanup  Act = "Cleanup"
	Rollback Act = "Rollback"
)

// Begin notes that a worker's engine has called a step, and returns what to
// call when the step returns.
func (w *Witness) Begin(worker string, act Act, job *courier.Context) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.executions[job.Execution()]
	if x == nil {
		w.report(breach("P1", job.Execution(), "a step of it is executed, and it was never created"))
		return func() {}
	}
	at := fmt.Sprintf("%s by worker %s of step %s, attempt %d", act, worker, place(job.Step(), job.Iteration()), job.Attempt())
	dir := string(x.ID) + "/" + job.Files().Dir()
	for other, n := range w.attempts.atWork[dir] {
		if n > 0 && (act != Rollback || other == worker) { // who rolls back can't know of a lost worker's step
			w.report(breach("P4", x.ID, "%s: worker %s is still at work in its directory", at, other))
		}
	}
	if act != Rollback { // a marker or a worker that was lost between two steps may have used up the number
		if err := w.attempts.begin(x, act, job); err != nil {
			w.report(breach("P4", x.ID, "%s: %v", at, err))
		}
	}
	if w.attempts.atWork[dir] == nil {
		w.attempts.atWork[dir] = make(map[string]int)
	}
	w.attempts.atWork[dir][worker]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.attempts.atWork[dir][worker]--
	}
}

// begin checks that an attempt may clean up or execute.
func (a *attempts) begin(x *shadow, act Act, job *courier.Context) error {
	of, _ := courier.TryGet[int](job, "job.attempt")
	own := name(x, of, job.Step(), job.Iteration(), stepcontext.Of(job).StartNumber())
	now := a.started[own]
	all := name(x, of, job.Step(), job.Iteration(), 0)
	for _, taken := range []string{string(x.ID) + "/" + job.Files().Dir(), stepcontext.Of(job).SideName("file")} {
		if owner := a.owners[taken]; owner != "" && owner != own {
			return fmt.Errorf("%s is the name of attempt %s too", taken, owner)
		}
		a.owners[taken] = own
	}
	switch {
	case now == nil:
		return errors.New("the store does not know that it started")
	case act == Cleanup:
		now.clean = true
		return nil
	case now.over && now.token == x.token:
		return errors.New("its end is written")
	case a.earlier[all] && !now.clean:
		return errors.New("no Cleanup was called after the attempt before")
	}
	a.earlier[all] = true
	return nil
}

// Gone notes that a worker's process has ended, and its steps with it.
func (w *Witness) Gone(worker string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.attempts.atWork {
		delete(at, worker)
	}
}
