package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/test/promise"
)

// config is the configuration of all steps.
type config struct {
	ID      string            `json:"id" courier:"required"`
	Program string            `json:"program" courier:"required"`
	Item    string            `json:"item"`
	Inputs  map[string]string `json:"inputs"`
	Secret  string            `json:"secret"`
	Note    string            `json:"note"`
	Outcome string            `json:"outcome"` // in the finally part
	Mend    int               `json:"mend"`
	Shift   int               `json:"shift"`
	Cause   string            `json:"cause"`
}

// output is the value of a step, and what it was given.
type output struct {
	Value  string            `json:"value"`
	Note   string            `json:"note"`
	Mend   int               `json:"mend"`
	Inputs map[string]string `json:"inputs,omitempty"`
	// Outcome is the outcome that a step in the finally part was given. Pass is the start number
	// before the first step of this pass.
	Outcome string `json:"outcome,omitempty"`
	Pass    int    `json:"pass,omitempty"`
}

// A step does what the dice of its attempt say. It has no state of its own; its context has the
// process in which it runs.
type step struct{}

// registry has the step types of all worlds.
var registry = sync.OnceValue(func() *courier.Registry {
	r := new(courier.Registry)
	timeout, none, stall := 30*time.Second, time.Duration(0), 10*time.Second
	courier.Register(r, "sim.work", step{}, &courier.TypeOptions{Timeout: &timeout})
	courier.Register(r, "sim.stall", step{}, &courier.TypeOptions{Timeout: &none, Stall: &stall})
	return r
})

// An act is one call of a step.
type act struct {
	p      *process
	job    *courier.Context
	dice   *rand.Rand
	number int64
	ctx    context.Context
	end    func()
}

func begin(ctx context.Context, what promise.Act, job *courier.Context) *act {
	p := ctx.Value(processKey{}).(*process)
	a := &act{p: p, job: job, ctx: ctx, number: p.w.numberOf(job.Execution())}
	again, _ := courier.TryGet[int](job, "job.attempt")
	key := fmt.Sprint(again, job.Step(), job.Iteration(), stepcontext.Of(job).StartNumber())
	a.dice = p.w.dice(string(what), int(a.number), key, p.name)
	// What was called, as it is recorded. What comes next happens a moment later.
	p.w.note(p.name, map[promise.Act]string{promise.Execute: "execute", promise.Cleanup: "cleanup", promise.Rollback: "rollback"}[what],
		a.number, int64(job.Step()), int64(stepcontext.Of(job).StartNumber()))
	end := p.w.witness.Begin(p.name, what, job)
	p.w.mu.Lock()
	p.w.acts[a] = true
	p.w.mu.Unlock()
	a.end = func() {
		p.w.mu.Lock()
		delete(p.w.acts, a)
		p.w.mu.Unlock()
		end()
	}
	return a
}

// taken checks, when an execution was claimed, that none of its steps still runs elsewhere
// undisturbed: the worker that had it must have ended the step's context before its lease ended.
func (w *world) taken(number int64, by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.acts {
		if a.number == number && a.ctx.Err() == nil && a.p.alive() {
			w.strange = append(w.strange, fmt.Errorf("P2: %s claims execution %d while %s goes on with step %d", by, number, a.p.name, a.job.Step()))
		}
	}
}

// pause lets time pass, or ends the goroutine's part in the world.
func (a *act) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		if a.p.standStill(d) {
			return nil
		}
	case <-ctx.Done():
		if a.p.sleep(spread(a.dice, 200*time.Millisecond)) {
			return context.Cause(ctx)
		}
	case <-a.p.gone:
	}
	return a.vanish()
}

// vanish holds the goroutine of a process that is gone until the world is over.
func (a *act) vanish() error {
	<-a.p.w.over
	return courier.ErrLeaseLost
}

// Execute checks what the step was given and does what its dice say.
func (step) Execute(ctx context.Context, job *courier.Context, cfg config) (output, error) {
	a := begin(ctx, promise.Execute, job)
	defer a.end()
	if err := errors.Join(a.check(cfg), a.checkCursor(cfg.ID)); err != nil {
		a.p.w.wrong("execution %d, step %d[%s]: %v", a.number, job.Step(), courier.FormatIteration(job.Iteration()), err)
	}
	if a.dice.IntN(2) == 0 {
		if _, err := courier.Keep(ctx, job, "sim.connection", a.connect); err != nil {
			return output{}, err
		}
	}
	if err := a.behave(ctx, cfg); err != nil {
		return output{}, err
	}
	if err := a.leave(cfg.ID); err != nil {
		return output{}, err
	}
	out := output{Value: value(fmt.Sprint(a.number), cfg.ID, job.Iteration()), Note: cfg.Note, Mend: cfg.Mend, Inputs: cfg.Inputs, Outcome: cfg.Outcome}
	if cfg.Outcome != "" {
		out.Pass = stepcontext.Of(job).StartNumber() - job.Attempt()
	}
	return out, nil
}

// check compares what the step was given with what the program says.
func (a *act) check(cfg config) error {
	name, _ := courier.TryGet[string](a.job, "params.program")
	p := a.p.w.programOf(name)
	if p == nil || cfg.Program != name {
		return fmt.Errorf("it is of program %q, but its execution of %q", cfg.Program, name)
	}
	if cfg.ID == pad {
		return nil
	}
	s := cmp.Or(p.steps[a.job.Step()-cfg.Shift], p.finals[a.job.Step()-cfg.Shift])
	if s == nil || s.id != cfg.ID {
		return fmt.Errorf("it is called %q", cfg.ID)
	}
	if err := s.checkCause(cfg); err != nil {
		return err
	}
	for i := range s.inputs {
		r := &s.inputs[i]
		want := value(fmt.Sprint(a.number), r.from.id, r.at(a.job.Iteration()))
		if got := cfg.Inputs[r.name]; got != want && !strings.HasPrefix(got, changedValue) { // see checkGiven
			return fmt.Errorf("input %s = %q, want %q", r.name, got, want)
		}
		if err := a.checkFile(r); err != nil {
			return err
		}
	}
	if n := len(s.loops); n > 0 {
		if want := s.loops[n-1].item(a.job.Iteration()[n-1]); cfg.Item != want {
			return fmt.Errorf("item = %q, want %q", cfg.Item, want)
		}
	}
	return nil
}

// A cursor is what a step saves for its next attempt: where it is.
type cursor struct {
	Execution         int64
	ID, Iteration     string
	Again, Base, Last int // attempts of the execution; starts before the loop began again; attempts of the step
}

// checkCursor checks that the step got no cursor but one of its own place in the same pass
// of an execution, and saves one.
func (a *act) checkCursor(id string) error {
	n := a.job.Attempt()
	mine := cursor{a.number, id, courier.FormatIteration(a.job.Iteration()), a.job.ExecutionAttempt(), stepcontext.Of(a.job).StartNumber() - n, n}
	var got cursor
	if a.job.Cursor(&got) {
		a.p.w.note(a.p.name, "goes on", a.number)
		if got.Last > n || got.Last < 1 {
			return fmt.Errorf("attempt %d was given the cursor of attempt %d", n, got.Last)
		}
		if got.Last = n; got != mine {
			return fmt.Errorf("the cursor %+v was given to %+v", got, mine)
		}
	}
	return a.job.SaveCursor(mine)
}

// bad returns an error if the step must fail in this iteration until an operator has repaired it.
func (a *act) bad(id string) error {
	if a.job.Iteration() == nil || stepcontext.Of(a.job).StartNumber() > a.job.Attempt() {
		return nil
	}
	err, r := courier.Permanent(errors.New("the item is bad")), a.p.w.dice("bad", int(a.number), id, courier.FormatIteration(a.job.Iteration()))
	switch bad := r.Float64() < a.p.w.mix.bad; {
	case !bad:
		return nil
	case r.IntN(4) == 0:
		return courier.WithClass(err, courier.ReasonConnection)
	}
	return err
}

// behave takes its time and ends as the dice say.
func (a *act) behave(ctx context.Context, cfg config) error {
	m, fate := &a.p.w.mix, a.dice.Float64()
	calm := a.p.w.calm.Load()
	hit := func(what string, p float64) bool {
		ok := !calm && fate >= 0 && fate < p
		if fate -= p; ok {
			a.p.w.note(a.p.name, what, a.number)
		}
		return ok
	}
	length := spread(a.dice, 300*time.Millisecond)
	if a.dice.Float64() < m.drawls {
		length = spread(a.dice, 8*time.Second)
	}
	bad, poison := a.bad(cfg.ID), a.p.w.dice("poison", int(a.number), cfg.ID).Float64() < m.poison
	switch {
	case bad != nil:
		return bad
	case poison && !calm && a.pause(ctx, length) == nil && !a.p.w.calm.Load():
		a.p.w.note(a.p.name, "kills", a.number)
		a.p.die()
		return a.vanish()
	case hit("never", m.never):
		select {
		case <-a.p.gone:
		case <-a.p.w.over:
		}
		return a.vanish()
	case hit("ignores", m.ignores):
		if !a.p.sleep(spread(a.dice, 40*time.Second)) {
			return a.vanish()
		}
		return errors.New("it is late")
	case hit("hangs", m.hangs):
		return a.pause(ctx, 24*time.Hour)
	}
	for range 3 {
		if err := a.pause(ctx, length/3+1); err != nil {
			return err
		}
		a.job.Progress(1, 3, cfg.ID)
	}
	switch {
	case hit("fails", m.fails):
		return fmt.Errorf("the partner says no to %s", cfg.Secret)
	case hit("permanent", m.permanent):
		return courier.Permanent(fmt.Errorf("the partner says never to %s", cfg.Secret))
	case hit("panics", m.panics):
		if a.dice.IntN(2) == 0 {
			runtime.Goexit()
		}
		panic("at the disco with " + cfg.Secret)
	}
	return nil
}

// Cleanup removes what an attempt before has left, which is nothing.
func (step) Cleanup(ctx context.Context, job *courier.Context, cfg config) error {
	return undo(ctx, promise.Cleanup, job, cfg)
}

// Rollback undoes nothing either.
func (step) Rollback(ctx context.Context, job *courier.Context, cfg config) error {
	return undo(ctx, promise.Rollback, job, cfg)
}

func undo(ctx context.Context, what promise.Act, job *courier.Context, cfg config) error {
	a := begin(ctx, what, job)
	defer a.end()
	if err := a.pause(ctx, spread(a.dice, 100*time.Millisecond)); err != nil {
		return err
	}
	if !a.p.w.calm.Load() && a.dice.Float64() < a.p.w.mix.panics/2 {
		panic("no way back with " + cfg.Secret)
	}
	return nil
}

// connect opens a connection, which takes a moment to close too.
func (a *act) connect(ctx context.Context) (*connection, error) {
	c := &connection{p: a.p, delay: spread(a.dice, 20*time.Millisecond)}
	if err := a.pause(ctx, spread(a.dice, 50*time.Millisecond)); err != nil {
		return nil, err
	}
	a.p.open.Add(1)
	return c, nil
}

// A connection is a connection that steps keep open.
type connection struct {
	p     *process
	delay time.Duration
}

// Close closes the connection.
func (c *connection) Close() error {
	c.p.sleep(c.delay)
	c.p.open.Add(-1)
	return nil
}
