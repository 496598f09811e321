package engine_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// A play is one way in which actors meet over one execution.
type play struct {
	*interleaving
	dir   string
	store store.Store
	reg   *courier.Registry
	id    courier.ExecutionID
	kind  behaviour
	deaf  bool // the renewals of engine a get no answer
	crowd bool // several ask at once: the event need not name the last of them

	engines []*engine.Engine
	actors  sync.WaitGroup
	mu      sync.Mutex
	acting  int
	wrong   []error
	claimed map[string]bool
	commits []commit
	events  []courier.Event
	entered map[string]int    // calls of Execute, by step and iteration
	names   map[string]string // the attempts that have a directory or the name of an unfinished file
	fell    map[string]bool   // steps that have failed, by step and iteration
	failed  bool
}

// A commit is a request that the store has answered.
type commit struct {
	kind courier.RequestKind
	seq  int64 // of the last audit entry then
	err  error
}

// A behaviour is what the execution does by itself.
type behaviour struct {
	name, policy, steps string
	fails               bool                      // the first call of a step fails
	failsAt             int                       // ... or of the step with this index, if it is not 0
	falls               map[string]courier.Reason // the first calls of these steps fail, by step and iteration
	returns             int                       // how often operators may have it go back; 0 means once
	stubborn            bool                      // steps complete although their context has ended
	eager               bool                      // the claim starts the first step
	ends                []courier.State
	last                int // the index of the step in the finally part; 0 if there is none
}

const oneStep = `{"type": "demo.a"}`

var completes = []courier.State{courier.Completed}

var behaviours = []behaviour{
	{name: "one step", policy: `"stop"`, steps: oneStep, ends: completes},
	{name: "two steps", policy: `"stop"`, steps: oneStep + "," + oneStep, ends: completes},
	{name: "loop", policy: `"stop"`, steps: `{"type": "flow.foreach", "config": {"source": ["x", "y"]}}, {"type": "demo.a"}, {"type": "flow.end"}`, ends: completes},
	{name: "failure", policy: `"stop"`, steps: oneStep, fails: true, ends: []courier.State{courier.Failed}},
	{name: "retry", policy: `{"type": "retry_step", "max_retries": 1}`, steps: oneStep, fails: true, ends: completes},
	{name: "retry of the job", policy: `{"type": "retry_job", "max_retries": 1}`, steps: oneStep, fails: true, ends: completes},
	{name: "skip", policy: `"skip_and_continue"`, steps: oneStep + "," + oneStep, fails: true, ends: completes},
	{name: "started by the claim", policy: `"stop"`, steps: oneStep + "," + oneStep, eager: true, ends: completes},
	{name: "failure, started by the claim", policy: `"stop"`, steps: oneStep, fails: true, eager: true, ends: []courier.State{courier.Failed}},
	{name: "stubborn step", policy: `"stop"`, steps: oneStep, stubborn: true, ends: completes},
	{name: "rescue", policy: `"stop"`, steps: `{"type": "flow.foreach", "config": {"source": ["x"]}}, ` + rescuedStep, fails: true, ends: completes},
	{
		name: "retry in a rescue", policy: `{"type": "retry_step", "max_retries": 1}`, steps: `{"type": "flow.try"}, ` + rescuedStep,
		falls: map[string]courier.Reason{"1[]": courier.ReasonError, "3[]": courier.ReasonError}, ends: completes,
	},
	{name: "finally", policy: `"stop"`, steps: oneStep + finallyStep, last: 2, ends: completes},
	{name: "failure and finally", policy: `"stop"`, steps: oneStep + finallyStep, last: 2, fails: true, ends: []courier.State{courier.Failed}},
	{
		name: "retry in finally", policy: `{"type": "retry_step", "max_retries": 1}`, steps: oneStep + finallyStep, last: 2,
		falls: map[string]courier.Reason{"2[]": courier.ReasonError}, ends: completes,
	},
}

// The rest of a block whose step comes to a rescue when it fails, and a finally part.
const (
	rescuedStep = `{"type": "demo.a", "failure_policy": "stop"}, {"type": "flow.rescue"}, {"type": "demo.a"}, {"type": "flow.end"}`
	finallyStep = `, {"type": "flow.finally"}, {"type": "demo.a"}`
)

func behaviourOf(name string) behaviour {
	return behaviours[slices.IndexFunc(behaviours, func(b behaviour) bool { return b.name == name })]
}

// newPlay enqueues an execution.
func newPlay(t *testing.T, s *interleaving, dir string, kind behaviour) (*play, error) {
	p := &play{
		interleaving: s, dir: dir, store: memstore.New(), reg: new(courier.Registry), kind: kind,
		claimed: make(map[string]bool), entered: make(map[string]int), names: make(map[string]string), fell: make(map[string]bool),
	}
	if kind.eager {
		p.store = storewrap.NewEager(p.store)
	}
	courier.RegisterFunc(p.reg, "demo.a", p.execute, nil)
	if err := p.define(t, "monday"); err != nil {
		return nil, err
	}
	x, err := engine.New(p.store, p.reg, &engine.Options{Workspace: dir}).Enqueue(t.Context(), "play", nil)
	p.id = x.ID
	return p, err
}

// define saves a version of the job with a default of its parameter.
func (p *play) define(t *testing.T, day string) error { return p.defineSteps(t, day, p.kind.steps) }

// defineMoved saves a version of the job in which another step comes first.
func (p *play) defineMoved(t *testing.T) error {
	return p.defineSteps(t, "tuesday", `{"id": "first", "type": "demo.a"}, `+p.kind.steps)
}

func (p *play) defineSteps(t *testing.T, day, steps string) error {
	var job courier.Job
	err := job.UnmarshalJSON([]byte(`{"name": "play", "params": {"day": "` + day + `"}, "failure_policy": ` + p.kind.policy + `, "steps": [` + steps + `]}`))
	if err == nil {
		_, err = engine.New(p.store, p.reg, &engine.Options{Workspace: p.dir}).Jobs().Define(t.Context(), job, nil)
	}
	return err
}

// A playConfig is the configuration of every step.
type playConfig struct {
	Write string `json:"write,omitempty"` // a file in the workspace
	Needs string `json:"needs,omitempty"` // another
	Leave bool   `json:"leave,omitempty"` // writes a file with the step's id as its name
}

// execute is every step.
func (p *play) execute(c ctx, job *courier.Context, cfg playConfig) (struct{}, error) {
	place := stepPlace(job.ID(), job.Step(), job.Iteration())
	p.mu.Lock()
	p.entered[place]++
	own := fmt.Sprint(place, " in attempt ", job.ExecutionAttempt(), ", start ", stepcontext.Of(job).StartNumber())
	for _, name := range []string{job.Files().Dir(), stepcontext.Of(job).SideName("")} {
		if other := p.names[name]; other != "" && other != own {
			p.wrong = append(p.wrong, fmt.Errorf("%s is the name of step %s and of step %s", name, other, own))
		}
		p.names[name] = own
	}
	p.mu.Unlock()
	a := p.arrive(fmt.Sprintf("step %d%v, attempt %d", job.Step(), job.Iteration(), job.Attempt()), 0)
	select {
	case <-a.free:
	case <-c.Done():
		p.leave(a)
		if !p.kind.stubborn {
			return struct{}{}, context.Cause(c)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kind.fails && !p.failed && job.Step() >= p.kind.failsAt {
		p.failed = true
		return struct{}{}, errors.New("boom")
	}
	if class := p.kind.falls[place]; class != "" && !p.fell[place] {
		p.fell[place] = true
		return struct{}{}, courier.WithClass(errors.New("boom"), class)
	}
	if cfg.Leave {
		cfg.Write = job.ID()
	}
	if cfg.Write == "" {
		return struct{}{}, nil
	}
	f, err := job.Files().Create(cfg.Write)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, f.Commit()
}

// stepPlace names a step in an iteration, in all versions of the job: by its id if it has one.
func stepPlace(id string, step int, iteration []int) string {
	return cmp.Or(id, fmt.Sprint(step)) + fmt.Sprint(iteration)
}

// engine returns a new engine whose calls about the execution are gated.
func (p *play) engine(name string) *engine.Engine {
	s := storewrap.Intercept(p.store, p.gated(func(c *storewrap.Call) string { return p.label(name, c) }, p.answered))
	if p.deaf && name == "a" {
		s = &deaf{Store: s}
	}
	e := engine.New(s, p.reg, &engine.Options{Worker: name, Workspace: p.dir, Observers: []func(courier.Event){func(ev courier.Event) {
		p.mu.Lock()
		if ev.Type != courier.EventJobLost { // which is not in the audit
			p.events = append(p.events, ev)
		}
		p.mu.Unlock()
	}}})
	p.engines = append(p.engines, e)
	return e
}

// deaf is a store that answers one claim, and then nothing but what an engine
// writes, until the engine has given up waiting for an answer.
type deaf struct {
	store.Store
	claimed, silent atomic.Bool
}

func (s *deaf) Apply(c ctx, t store.Transition) error {
	if s.silent.Load() {
		<-c.Done()
		return c.Err()
	}
	err := s.Store.Apply(c, t)
	if c.Err() != nil {
		s.silent.Store(true)
	}
	return err
}

func (s *deaf) Renew(c ctx, _ store.RenewRequest) ([]store.Renewed, error) {
	<-c.Done()
	return nil, c.Err()
}

func (s *deaf) Claim(c ctx, r store.ClaimRequest) (store.Claims, error) {
	if s.claimed.Swap(true) {
		<-c.Done()
		return store.Claims{}, c.Err()
	}
	return s.Store.Claim(c, r)
}

// label names the calls that matter: an engine's first claim, progress and
// requests.
func (p *play) label(engine string, c *storewrap.Call) string {
	switch c.Method {
	case "Claim":
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.claimed[engine] {
			p.claimed[engine] = true
			return engine + ": claim"
		}
	case "Apply":
		t := c.Request.(store.Transition)
		text := engine + ": write " + string(t.To)
		if t.Start != nil {
			text = fmt.Sprintf("%s: start step %d%v", engine, t.Start.Step, t.Start.Iteration)
		}
		return text
	case "Enqueue":
		return c.Request.([]store.NewExecution)[0].By + ": enqueue"
	case "Request":
		r := c.Request.(store.Request)
		if engine == "o" {
			return r.By + ": " + string(r.Kind) + "." // nothing but the operator waits for the answer
		}
		return r.By + ": " + string(r.Kind)
	}
	return ""
}

// answered takes note of requests.
func (p *play) answered(c *storewrap.Call, err error) {
	r, ok := c.Request.(store.Request)
	if !ok {
		return
	}
	audit, _ := p.store.Audit(context.Background(), store.AuditFilter{Execution: p.id})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = append(p.commits, commit{r.Kind, int64(len(audit)), err})
}

// act lets f run as an actor.
func (p *play) act(f func() error) {
	p.actors.Add(1)
	p.mu.Lock()
	p.acting++
	p.mu.Unlock()
	go func() {
		defer p.actors.Done()
		err := f()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.acting--
		if err != nil {
			p.wrong = append(p.wrong, err)
		}
	}()
}

// ask makes requests, one after the other. Refusals are for the store's
// records: see check.
func (p *play) ask(e *engine.Engine, by string, kinds ...courier.RequestKind) {
	p.act(func() error {
		for _, k := range kinds {
			_, err := request(e, k)(context.Background(), p.id, courier.By{Actor: by})
			_, refused := errors.AsType[*courier.TransitionError](err)
			if _, change := changes[k]; err != nil && !refused && !(change && errors.Is(err, courier.ErrConflict)) {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	})
}

// skip stands for a resume that skips the step which failed.
const skip courier.RequestKind = "skip"

// changes are resumes with a change, by the words that stand for them.
var changes = map[courier.RequestKind]courier.ResumeOptions{
	skip:        {Skip: true},
	"from":      {From: "0"},
	"back":      {From: "s0"},
	"set":       {Set: map[string]any{"params.day": "friday"}},
	"version":   {Version: 2},
	"former":    {Version: 1},
	"elsewhere": {Elsewhere: true},
	"items":     {Items: firstItem},
	"rescue":    {Rescue: firstItem},
	"accept":    {Accept: firstItem},
}

var firstItem = []courier.ItemPath{{Loop: 0, Iteration: []int{0}}}

func request(e *engine.Engine, k courier.RequestKind) func(ctx, courier.ExecutionID, courier.By) (courier.Execution, error) {
	switch k {
	case courier.RequestPause:
		return e.Pause
	case courier.RequestCancel, courier.RequestAbort:
		return func(c ctx, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
			return e.Cancel(c, id, &courier.CancelOptions{By: by, WithoutFinally: k == courier.RequestAbort})
		}
	}
	opt := changes[k]
	return func(c ctx, id courier.ExecutionID, by courier.By) (courier.Execution, error) {
		opt.By = by
		if opt.Changes() {
			opt.By.Reason = "it was done by hand"
		}
		return e.Resume(c, id, &opt)
	}
}

// run lets one after the other go on until nothing moves any more.
func (p *play) run() error {
	const most = 300
	for range most {
		waiting := p.options()
		x, err := p.store.Execution(context.Background(), p.id)
		if err != nil {
			return err
		}
		labels := make([]string, len(waiting), len(waiting)+1)
		for i, a := range waiting {
			labels[i] = a.label
		}
		backoff := x.State == courier.Queued && x.DueAt.After(time.Now())
		if backoff && len(waiting) > 0 && strings.HasPrefix(labels[0], "operator") {
			labels = append(labels, "time passes")
		}
		if len(waiting) == 0 {
			p.mu.Lock()
			over := p.acting == 0 && (x.State.Ended() || x.State == courier.Paused)
			p.mu.Unlock()
			if over {
				return nil
			}
			time.Sleep(time.Second)
			continue
		}
		if i := p.pick(labels); i < len(waiting) {
			p.release(waiting[i])
		} else {
			time.Sleep(time.Until(x.DueAt) + time.Millisecond)
		}
	}
	return fmt.Errorf("after %d moves there is no end", most)
}

// end stops all engines.
func (p *play) end() error {
	p.openAll()
	p.actors.Wait()
	done, cancel := context.WithCancel(context.Background())
	cancel()
	var errs []error
	for _, e := range p.engines {
		errs = append(errs, e.Stop(done))
	}
	return errors.Join(append(errs, p.wrong...)...)
}

// perform enqueues an execution, sets the actors going, and checks how it ended.
// A goroutine that is left fails the test when the bubble ends.
func perform(t *testing.T, s *interleaving, dir string, kind behaviour, actors func(p *play) error) (err error) {
	p, err := newPlay(t, s, dir, kind)
	if err != nil {
		return err
	}
	err = actors(p)
	if err == nil {
		err = p.run()
	}
	if err == nil {
		err = p.check(t)
	}
	err = errors.Join(err, p.end())
	if err != nil {
		audit, _ := p.store.Audit(context.Background(), store.AuditFilter{Execution: p.id})
		err = fmt.Errorf("%w\naudit: %s\nevents: %s", err, entriesText(audit), eventsText(p.events))
	}
	return err
}

func entriesText(list []courier.AuditEntry) string {
	var b strings.Builder
	for _, a := range list {
		fmt.Fprintf(&b, "\n  %d %s", a.Seq, entryText(&a))
	}
	return b.String()
}

func entryText(a *courier.AuditEntry) string {
	text := fmt.Sprintf("%s > %s", a.From, a.To)
	if a.Step != nil {
		text = fmt.Sprintf("step %d%v attempt %d: %s", *a.Step, a.Iteration, a.Attempt, text)
	}
	return fmt.Sprintf("%s %s by %q on %q", text, a.Reason, a.By, a.Worker)
}

func eventsText(list []courier.Event) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "\n  %s", eventText(&e))
	}
	return b.String()
}

// check says what is wrong with how the execution has ended.
func (p *play) check(t *testing.T) error {
	x, err := p.store.Execution(t.Context(), p.id)
	if err != nil {
		return err
	}
	if err := storetest.CheckExecution(t.Context(), p.store, p.id); err != nil {
		return err
	}
	reruns, err := p.store.Executions(t.Context(), store.Filter{RerunOf: p.id})
	if err != nil || len(reruns) > 1 {
		return errors.Join(err, fmt.Errorf("it was started again %d times", len(reruns)))
	}
	audit, err := p.store.Audit(t.Context(), store.AuditFilter{Execution: p.id})
	if err != nil {
		return err
	}
	return errors.Join(p.checkEnd(&x), p.checkRequests(audit), p.checkSteps(audit), p.checkEvents(audit), p.checkSkips(audit), p.checkFinally(audit))
}

// checkEnd compares the last state with what was acknowledged.
func (p *play) checkEnd(x *courier.Execution) error {
	want, why := p.kind.ends, "nothing was asked for"
	if p.deaf && p.kind.fails {
		want = []courier.State{courier.Completed, courier.Failed} // nobody may hear of the failure
	}
	for i, c := range p.commits {
		if c.err != nil || p.acknowledged(i) == courier.RequestCancel {
			continue // the finally part of what is cancelled may be asked to pause, to no effect
		}
		switch why = "a " + string(c.kind) + " was acknowledged"; c.kind {
		case courier.RequestCancel:
			want = []courier.State{courier.Cancelled}
		case courier.RequestAbort: // which may end the finally part of another outcome
			want = append([]courier.State{courier.Cancelled}, p.kind.ends...)
		case courier.RequestPause:
			want = []courier.State{courier.Paused, courier.Completed, courier.Failed}
		case courier.RequestResume:
			want = []courier.State{courier.Completed}
			if slices.Contains(p.kind.ends, courier.Failed) { // a pause may have been withdrawn before it failed
				want = append(want, courier.Failed)
			}
		}
	}
	if !slices.Contains(want, x.State) {
		return fmt.Errorf("the execution is %s in the end, but %s", x.State, why)
	}
	if x.State == courier.Completed && x.FailedItems > 0 {
		return fmt.Errorf("the execution is completed with %d failed items, which nobody accepts", x.FailedItems)
	}
	return nil
}

// checkRequests looks for steps that started although a request that was
// acknowledged forbade it, and for requests that were refused without reason.
func (p *play) checkRequests(audit []courier.AuditEntry) error {
	for i, c := range p.commits {
		if refused, ok := errors.AsType[*courier.TransitionError](c.err); ok {
			if earlier := p.acknowledged(i); !legalRefusal(c.kind, earlier, refused.From) && (p.kind.last == 0 || refused.Outcome == "") {
				return fmt.Errorf("a %s was refused in state %s, after a %s", c.kind, refused.From, earlier)
			}
			continue
		}
		if errors.Is(c.err, courier.ErrConflict) && c.kind == courier.RequestResume && p.acknowledged(i) != "" {
			continue // a change that was made for what another request has changed since
		}
		if c.err != nil {
			return c.err
		}
		until := int64(len(audit))
		if c.kind == courier.RequestPause {
			for _, later := range p.commits[i+1:] {
				if later.kind == courier.RequestResume && later.err == nil {
					until = later.seq
					break
				}
			}
		}
		for _, a := range audit[c.seq:until] {
			if c.kind != courier.RequestResume && a.Step != nil && a.To == string(courier.StepRunning) && (!p.isLast(&a) || p.aborts(i)) {
				return fmt.Errorf("entry %d: step %d started after a %s", a.Seq, *a.Step, c.kind)
			}
		}
	}
	return nil
}

// acknowledged is the last request before the i-th that was; a cancel is never
// followed by another.
func (p *play) acknowledged(i int) courier.RequestKind {
	var last courier.RequestKind
	for _, c := range p.commits[:i] {
		if c.err == nil && last != courier.RequestCancel {
			last = c.kind
		}
	}
	return last
}

// aborts reports whether the i-th request leaves out the finally part, or ends it.
func (p *play) aborts(i int) bool {
	c := &p.commits[i]
	return c.err == nil && (c.kind == courier.RequestAbort || c.kind == courier.RequestCancel && p.acknowledged(i) == courier.RequestCancel)
}

// isLast reports whether an entry is about a step of the finally part.
func (p *play) isLast(a *courier.AuditEntry) bool {
	return p.kind.last > 0 && a.Step != nil && *a.Step >= p.kind.last
}

// checkFinally looks for an end of what had begun without its finally part, for one that has run
// twice or while other steps did, and for one that has changed the outcome.
func (p *play) checkFinally(audit []courier.AuditEntry) error {
	if p.kind.last == 0 {
		return nil
	}
	begun, ran, outcome := false, -1, "" // how often it has run for this end; -1 before its beginning
	for _, a := range audit {
		aborted := false
		for i := range p.commits {
			aborted = aborted || p.aborts(i) && p.commits[i].seq <= a.Seq
		}
		switch over := a.To == string(courier.StepCompleted); {
		case p.isLast(&a) && ran < 0, a.Step != nil && !p.isLast(&a) && ran >= 0 && a.To == string(courier.StepRunning):
			return fmt.Errorf("entry %d is of step %d, and that the finally part runs is %t", a.Seq, *a.Step, ran >= 0)
		case p.isLast(&a) && over:
			if ran++; ran > 1 {
				return fmt.Errorf("entry %d: the finally part has run twice", a.Seq)
			}
		case a.Step != nil:
		case a.From == a.To && ran >= 0:
			return fmt.Errorf("entry %d: the finally part begins twice", a.Seq)
		case a.From == a.To:
			_, outcome, _ = strings.Cut(a.Error, "the outcome is ")
			outcome, _, _ = strings.Cut(outcome, ":")
			ran = 0
		case courier.State(a.To).Ended() && a.From != string(courier.Failed):
			if begun && ran != 1 && !aborted || outcome != "" && a.To != outcome {
				return fmt.Errorf("entry %d: it is %s when the finally part has run %d times with the outcome %q", a.Seq, a.To, ran, outcome)
			}
			ran, outcome = -1, ""
		}
		begun = begun || a.Step == nil && a.To == string(courier.Running)
	}
	return nil
}

func legalRefusal(kind, earlier courier.RequestKind, from courier.State) bool {
	switch {
	case from.Final():
		return true
	case kind == courier.RequestCancel:
		return false
	case earlier == courier.RequestCancel:
		return true
	case kind == courier.RequestPause:
		return from == courier.Failed || from == courier.Paused
	}
	return earlier != courier.RequestPause && (from == courier.Queued || from == courier.Running)
}

// checkSteps looks for steps that ran again after they had completed, or ran
// without a record of it, and for a run that ended without a last word.
func (p *play) checkSteps(audit []courier.AuditEntry) error {
	starts, done, returns, shift := make(map[string]int), make(map[string]bool), 0, 0
	for _, a := range audit {
		if strings.Contains(a.Error, "version 2 in place of 1") {
			shift = 1 // another step comes first
		}
		if strings.Contains(a.Error, "version 1 in place of 2") {
			shift = 0
		}
		if _, text, back := strings.Cut(a.Error, "from step "); back && a.Step == nil {
			from := text[:1] // no step has two digits
			if p.kind.falls != nil {
				from = fmt.Sprint("s", int(from[0]-'0')-shift)
			}
			maps.DeleteFunc(done, func(key string, _ bool) bool { return key >= from })
			if returns++; returns > max(1, p.kind.returns) {
				return fmt.Errorf("entry %d: it goes back for time %d", a.Seq, returns)
			}
		}
		if strings.Contains(a.Error, "from its first step") { // failed items of which files are lost
			maps.DeleteFunc(done, func(key string, _ bool) bool { return !strings.HasSuffix(key, "[]") })
		}
		if a.Step == nil && a.From == a.To { // the finally part begins, perhaps again
			delete(done, stepPlace("", p.kind.last, nil))
		}
		if a.Step == nil {
			if a.Reason == courier.ReasonWorkerLost && !p.deaf {
				return fmt.Errorf("entry %d: an engine that lives has let the execution lie", a.Seq)
			}
			continue
		}
		key := stepPlace(a.ID, *a.Step, a.Iteration)
		switch courier.StepState(a.To) {
		case courier.StepRunning:
			if starts[key]++; done[key] {
				return fmt.Errorf("entry %d: step %s started again after it had completed", a.Seq, key)
			}
		case courier.StepCompleted, courier.StepSkipped:
			done[key] = true
		}
	}
	for key, n := range p.entered {
		if n > starts[key] {
			return fmt.Errorf("step %s was called %d times, but started %d times", key, n, starts[key])
		}
	}
	return nil
}

// checkSkips looks for a step that was skipped twice, or executed after it.
func (p *play) checkSkips(audit []courier.AuditEntry) error {
	skipped := 0
	for _, a := range audit {
		switch {
		case a.Step == nil || *a.Step != 0:
		case a.To == string(courier.StepSkipped) && a.Reason == courier.ReasonOperator:
			skipped++
		case skipped > 0:
			return fmt.Errorf("entry %d: step 0 is %s after it was skipped", a.Seq, a.To)
		}
	}
	if skipped > 1 {
		return fmt.Errorf("step 0 was skipped %d times", skipped)
	}
	return nil
}

// checkEvents compares the events with the audit. An engine that gave up
// waiting for an answer doesn't tell of what was written after all.
func (p *play) checkEvents(audit []courier.AuditEntry) error {
	synctest.Wait()
	want := make(map[string]int)
	for i, a := range audit {
		if p.crowd {
			a.By = ""
		}
		if text := eventOfEntry(audit[:i], &a); text != "" {
			want[text]++
		}
	}
	for _, e := range p.events {
		if p.crowd {
			e.By = ""
		}
		want[eventText(&e)]--
	}
	for text, n := range want {
		if n < 0 || n > 0 && !p.deaf {
			return fmt.Errorf("event %q: %d too few", text, n)
		}
	}
	return nil
}

var (
	cancelOnce = []courier.RequestKind{courier.RequestCancel}
	pauseOnce  = []courier.RequestKind{courier.RequestPause}
)

// requests are what operators do: each list is one operator.
var requests = [][][]courier.RequestKind{
	{cancelOnce},
	{pauseOnce},
	{{courier.RequestResume}},
	{{courier.RequestPause, courier.RequestResume}},
	{{courier.RequestCancel, courier.RequestCancel}},
	{{courier.RequestCancel, courier.RequestPause}},
	{{courier.RequestPause, courier.RequestCancel}},
	{{courier.RequestAbort}},
}

// someRequests are what one operator asks for when others act too: nothing, and
// for some behaviours more.
func someRequests(kind string, more ...string) [][]courier.RequestKind {
	if !slices.Contains(more, kind) {
		return [][]courier.RequestKind{nil}
	}
	return [][]courier.RequestKind{nil, cancelOnce, pauseOnce}
}

var everyPlay = flag.Int("every", raced.Or(9, 1), "of how many plays one is explored")

// TestInterleavings lets an engine run an execution while operators make
// requests, in every order of the calls of the store.
func TestInterleavings(t *testing.T) {
	dir, total, plays, start := t.TempDir(), 0, 0, time.Now()
	for _, kind := range behaviours {
		for _, list := range requests {
			for _, where := range []string{"a", "o"} {
				if where == "a" && kind.name != "one step" && (len(list[0]) > 1 || kind.name == "retry of the job") {
					continue // many ways, and nothing new
				}
				if list[0][0] == courier.RequestAbort && kind.last == 0 {
					continue
				}
				if plays++; plays%*everyPlay > 0 {
					continue
				}
				total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
					return perform(t, s, dir, kind, func(p *play) error {
						a := p.engine("a")
						op := a
						if where == "o" {
							op = p.engine("o")
						}
						for i, kinds := range list {
							p.ask(op, fmt.Sprintf("operator %d", i+1), kinds...)
						}
						return a.Start(t.Context())
					})
				})
				if t.Failed() {
					t.Fatalf("%s, %v, asked on engine %s", kind.name, list, where)
				}
			}
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestInterleavingsOfOperators has two operators; one may be on the engine that
// has the execution.
func TestInterleavingsOfOperators(t *testing.T) {
	dir, total, plays, start := t.TempDir(), 0, 0, time.Now()
	const pause, resume, cancel = courier.RequestPause, courier.RequestResume, courier.RequestCancel
	for _, kind := range []string{"one step", "failure", "retry", "finally"} {
		for _, two := range [][2]courier.RequestKind{{cancel, cancel}, {cancel, pause}, {cancel, resume}, {pause, cancel}, {pause, pause}, {pause, resume}, {resume, pause}} {
			if plays++; plays%*everyPlay > 0 {
				continue
			}
			total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
				return perform(t, s, dir, behaviourOf(kind), func(p *play) error {
					a, o := p.engine("a"), p.engine("o")
					p.crowd = true
					if kind == "one step" {
						p.ask(a, "operator 1", two[0])
					} else {
						p.ask(o, "operator 1", two[0])
					}
					p.ask(o, "operator 2", two[1])
					return a.Start(t.Context())
				})
			})
			if t.Failed() {
				t.Fatalf("%s, %v", kind, two)
			}
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestInterleavingsOfStop stops the engine, with and without patience, while
// it runs the execution and an operator makes a request; then another engine
// goes on.
func TestInterleavingsOfStop(t *testing.T) {
	dir, total, plays, start := t.TempDir(), 0, 0, time.Now()
	for _, kind := range behaviours {
		for _, list := range someRequests(kind.name, "one step", "loop", "retry", "stubborn step", "started by the claim", "rescue", "finally") {
			for _, patient := range []bool{true, false} {
				if plays++; plays%*everyPlay > 0 {
					continue
				}
				total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
					return perform(t, s, dir, kind, func(p *play) error {
						a, next := p.engine("a"), p.engine("b")
						p.ask(p.engine("o"), "operator", list...)
						if err := a.Start(t.Context()); err != nil {
							return err
						}
						p.act(func() error {
							c, cancel := contextWithCancel(t)
							defer cancel()
							p.pass("stop")
							if !patient {
								cancel()
							}
							return errors.Join(a.Stop(c), next.Start(t.Context()))
						})
						return nil
					})
				})
				if t.Failed() {
					t.Fatalf("%s, %v, patient %v", kind.name, list, patient)
				}
			}
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestInterleavingsOfTakeover lets the leases of an engine that lives expire,
// so that another takes over, while what the first has sent still arrives, and
// an operator makes a request.
func TestInterleavingsOfTakeover(t *testing.T) {
	dir, total, plays, start := t.TempDir(), 0, 0, time.Now()
	for _, kind := range behaviours {
		for _, list := range someRequests(kind.name, "one step", "rescue", "finally") {
			if plays++; plays%*everyPlay > 0 {
				continue
			}
			total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
				return perform(t, s, dir, kind, func(p *play) error {
					p.deaf = true
					a, b := p.engine("a"), p.engine("b")
					p.ask(p.engine("o"), "operator", list...)
					if err := a.Start(t.Context()); err != nil {
						return err
					}
					p.act(func() error {
						p.sleep("the lease ends", 16*time.Second)
						return b.Start(t.Context())
					})
					return nil
				})
			})
			if t.Failed() {
				t.Fatalf("%s, %v", kind.name, list)
			}
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}

// TestInterleavingsOfChanges has operators change an execution that has failed, by skipping
// the step that failed, while others resume, skip, pause or cancel it: of the changes that
// were made for the same state one takes effect.
func TestInterleavingsOfChanges(t *testing.T) {
	dir, total, start := t.TempDir(), 0, time.Now()
	kind := behaviour{name: "changes", policy: `"stop"`, steps: oneStep + "," + oneStep, fails: true, ends: []courier.State{courier.Failed, courier.Completed}}
	for i, two := range [][2]courier.RequestKind{{skip, skip}, {skip, courier.RequestResume}, {skip, courier.RequestCancel}, {skip, courier.RequestPause}} {
		if i%*everyPlay > 0 {
			continue
		}
		total += explore(t, 5000, func(t *testing.T, s *interleaving) error {
			return perform(t, s, dir, kind, func(p *play) error {
				a, o := p.engine("a"), p.engine("o")
				p.crowd = true
				if err := a.Start(t.Context()); err != nil {
					return err
				}
				for i, k := range two {
					p.act(func() error {
						p.sleep(fmt.Sprintf("operator %d comes", i+1), time.Second)
						_, err := request(o, k)(context.Background(), p.id, courier.By{Actor: fmt.Sprintf("operator %d", i+1)})
						_, refused := errors.AsType[*courier.TransitionError](err)
						if refused || errors.Is(err, courier.ErrConflict) || errors.Is(err, courier.ErrInvalid) {
							return nil
						}
						return err
					})
				}
				return nil
			})
		})
		if t.Failed() {
			t.Fatalf("%v", two)
		}
	}
	t.Logf("%d interleavings in %v", total, time.Since(start).Round(time.Millisecond))
}
