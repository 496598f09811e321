package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
	"github.com/courierhq/courier/store/storewrap"
)

// A drill is one run of a pipeline: workers, operators, and the state that the execution must
// have at the end.
type drill struct {
	*testing.T
	p     *pipeline
	store store.Store // as it is
	unit  time.Duration
	try   trial

	bench, desk   *storewrap.Faulty // the stores of the first worker and of the first operator
	first, second *engine.Engine    // the workers
	operators     [2]*engine.Engine
	helped        bool // the second worker has begun
	id            courier.ExecutionID
	asked         []acknowledged
	working       atomic.Int32 // steps that are being executed

	calls, requests int // of the two stores that can fail, until the end
}

// An acknowledged is an acknowledged pause or cancel, and the last audit entry at that time.
type acknowledged struct {
	kind courier.RequestKind
	seq  int64
}

func newDrill(t *testing.T, p *pipeline, s store.Store, unit time.Duration, dir string, try trial) *drill {
	d := &drill{T: t, p: p, store: s, unit: unit, try: try}
	var ofWorker, ofOperator storewrap.Fault
	if try.who == "operator" {
		ofOperator = try.fault
	} else {
		ofWorker = try.fault
	}
	d.bench, d.desk = storewrap.NewFaulty(s, ofWorker), storewrap.NewFaulty(s, ofOperator)
	r := d.registry()
	start := func(s store.Store, name string) *engine.Engine {
		return engine.New(s, r, &engine.Options{
			Worker: name, Workspace: dir, WorkspaceID: "here",
			Lease: 15 * unit, Poll: 12 * unit, Grace: 10 * unit, SoftStop: 30 * unit,
		})
	}
	d.first, d.second = start(d.bench, "first"), start(s, "second")
	d.operators = [2]*engine.Engine{start(d.desk, "operator"), start(s, "another operator")}
	return d
}

// faulty returns the store that has the fault.
func (d *drill) faulty() *storewrap.Faulty {
	if d.try.who == "operator" {
		return d.desk
	}
	return d.bench
}

// run runs the pipeline to its end and checks the result.
func (d *drill) run() {
	if err := d.first.Start(d.Context()); err != nil {
		d.Fatal(err)
	}
	time.Sleep(d.unit / 4) // the first claim finds nothing, in every run
	d.request("enqueue", d.enqueue)
	if d.p.operate != nil {
		d.p.operate(d)
	}
	d.until(fmt.Sprintf("it is %s", d.p.state), func(x *courier.Execution) bool { return x.State == d.p.state })
	d.calls, d.requests = d.bench.Calls(""), d.desk.Calls("")
	time.Sleep(20 * d.unit) // what comes late, even after a lease, must do no harm
	d.stop()
	d.check()
}

// enqueue creates the execution, unless a request that was not acknowledged has
// done so.
func (d *drill) enqueue(ctx context.Context, e *engine.Engine) error {
	if _, err := e.Jobs().Define(ctx, d.p.job(d.unit), nil); err != nil {
		return err
	}
	list, err := d.store.Executions(ctx, store.Filter{})
	if err != nil {
		return err
	}
	if len(list) > 0 {
		d.id = list[0].ID
		return nil
	}
	x, err := e.Enqueue(ctx, d.p.name, &courier.EnqueueOptions{Hold: d.p.hold, By: courier.By{Actor: "ops"}})
	d.id = x.ID
	return err
}

// look returns the current execution. The second worker begins when the first worker's store has
// failed.
func (d *drill) look() courier.Execution {
	d.Helper()
	if !d.helped && d.try.who == "beside" && d.bench.Hit() != "" {
		d.helped = true
		if err := d.second.Start(d.Context()); err != nil {
			d.Fatal(err)
		}
	}
	x, err := d.store.Execution(d.Context(), d.id)
	if err != nil {
		d.Fatal(err)
	}
	return x
}

// patience is the maximum number of units for each wait.
const patience = 600

// until waits until the execution meets a condition.
func (d *drill) until(what string, is func(*courier.Execution) bool) {
	d.Helper()
	var x courier.Execution
	for range 2 * patience {
		if x = d.look(); is(&x) {
			return
		}
		time.Sleep(d.unit / 2)
	}
	d.Fatalf("waited for %d units until %s; it is %s:\n%s", patience, what, x.Status(time.Now()), d.story())
}

// running waits until a step is being executed, in an iteration.
func (d *drill) running(step int, iteration ...int) {
	d.Helper()
	d.until(fmt.Sprintf("step %d runs", step), func(x *courier.Execution) bool {
		return x.Current != nil && x.Current.Step == step && slices.Equal(x.Current.Iteration, iteration)
	})
}

// rest checks that nothing happens to the execution for a while.
func (d *drill) rest(state courier.State) {
	d.Helper()
	for range 7 {
		if x := d.look(); x.State != state {
			d.Fatalf("it was %s and is %s though nobody asked for it:\n%s", state, x.State, d.story())
		}
		time.Sleep(d.unit)
	}
}

// pause pauses the execution, and resumes it after a while.
func (d *drill) pause() {
	d.Helper()
	d.ask(courier.RequestPause)
	d.until("it is paused", func(x *courier.Execution) bool { return x.State == courier.Paused })
	d.rest(courier.Paused)
	d.ask(courier.RequestResume)
}

// restart stops the first worker, which interrupts its step, and starts it
// again.
func (d *drill) restart() {
	d.Helper()
	d.halt(d.first)
	if err := d.first.Start(d.Context()); err != nil {
		d.Fatal(err)
	}
}

// halt stops a worker without waiting for its steps.
func (d *drill) halt(e *engine.Engine) {
	d.Helper()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(now) }()
	limit := time.NewTimer(patience * d.unit)
	defer limit.Stop()
	select {
	case err := <-stopped:
		if err != nil {
			d.Error(err)
		}
	case <-limit.C:
		d.Fatalf("a worker could not be stopped within %d units:\n%s", patience, d.story())
	}
}

// stop stops all workers, including the dead ones.
func (d *drill) stop() {
	d.Helper()
	d.bench.Release()
	d.desk.Release()
	d.halt(d.first)
	d.halt(d.second)
}

// ask makes an operator's request.
func (d *drill) ask(kind courier.RequestKind) {
	d.Helper()
	d.request(string(kind), func(ctx context.Context, e *engine.Engine) error {
		switch kind {
		case courier.RequestPause:
			return errOf(e.Pause(ctx, d.id, courier.By{Actor: "ops"}))
		case courier.RequestResume:
			return errOf(e.Resume(ctx, d.id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))
		case courier.RequestCancel:
			return errOf(e.Cancel(ctx, d.id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))
		}
		return errOf(e.Release(ctx, d.id, courier.By{Actor: "ops"}))
	})
	if kind == courier.RequestPause || kind == courier.RequestCancel {
		d.asked = append(d.asked, acknowledged{kind, int64(len(d.audit()))})
	}
}

// request makes a request until it is acknowledged. If the operator's store fails or takes too
// long, another operator repeats it, and may find that it was granted.
func (d *drill) request(what string, f func(ctx context.Context, e *engine.Engine) error) {
	d.Helper()
	limit := patience * d.unit
	if d.try.who == "operator" {
		limit = 2 * d.unit // less than the steps last during which requests are made
	}
	for i, e := range d.operators {
		ctx, cancel := context.WithTimeout(d.Context(), limit)
		err := f(ctx, e)
		cancel()
		limit = patience * d.unit
		if err == nil {
			return
		}
		if _, granted := errors.AsType[*courier.TransitionError](err); i > 0 && granted {
			return
		}
		if i > 0 || d.desk.Hit() == "" && !errors.Is(err, context.DeadlineExceeded) {
			d.Fatalf("%s: %v\n%s", what, err, d.story())
		}
	}
}

// check compares the state in the store with the expected one.
func (d *drill) check() {
	d.Helper()
	list, err := d.store.Executions(context.Background(), store.Filter{})
	if err != nil || len(list) != 1 || list[0].ID != d.id {
		d.Fatalf("%d executions instead of one, %v", len(list), err)
	}
	x := &list[0]
	if x.State != d.p.state {
		d.Errorf("it was %s and is %s", d.p.state, x.State)
	}
	if x.State == courier.Completed && !x.Position.Equal(courier.Position{Step: len(d.p.steps)}) {
		d.Errorf("it is completed at position %s", storekit.Text(x.Position))
	}
	if err := storekit.CheckExecution(context.Background(), d.store, d.id); err != nil {
		d.Error(err)
	}
	d.compare("moves", d.moves(), d.p.moves)
	d.compare("steps", d.trace(), d.p.trace)
	for _, a := range d.asked {
		d.obeyed(a)
	}
	for _, e := range d.audit() {
		if e.Reason == courier.ReasonWorkerLost && !d.mayLose() {
			d.Errorf("entry %d says that a worker was lost", e.Seq)
		}
	}
	if d.Failed() {
		d.Logf("it happened so:\n%s", d.story())
	}
}

// compare reports lists that differ. If a worker may be lost, the step that a cancel interrupts
// may be lost too, or may never start.
func (d *drill) compare(what string, got, want []string) {
	d.Helper()
	if d.mayLose() {
		cancelled := func(line string) bool { return strings.HasSuffix(line, "failed cancelled") }
		got, want = slices.DeleteFunc(got, cancelled), slices.DeleteFunc(slices.Clone(want), cancelled)
	}
	if !slices.Equal(got, want) {
		d.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// moves returns the changes of state, without those into and out of the queue that no
// operator requested.
func (d *drill) moves() []string {
	var list []string
	for _, e := range d.audit() {
		queue := e.To == string(courier.Queued) || e.To == string(courier.Running)
		switch {
		case e.Step != nil || e.From == "" || queue && e.By == "":
		case e.By != "":
			list = append(list, e.To+" by "+e.By)
		default:
			list = append(list, e.To)
		}
	}
	return list
}

// mayLose reports whether the execution may have lost a worker. An error is not a reason: a
// worker repeats its writes, and only a claim whose reply was an error is lost.
func (d *drill) mayLose() bool {
	fails := d.try.fault.Kind == storewrap.FailBefore || d.try.fault.Kind == storewrap.FailAfter
	return (d.try.who == "beside" || d.try.who == "alone") && !(fails && d.bench.Hit() != "Claim")
}

// trace returns how the steps ended, without those of lost workers.
func (d *drill) trace() []string {
	var list []string
	for _, r := range d.records() {
		if r.Reason == courier.ReasonWorkerLost && d.mayLose() {
			continue
		}
		line := fmt.Sprint(r.Step)
		if r.ExecutionAttempt > 1 {
			line = fmt.Sprintf("again %d: %d", r.ExecutionAttempt, r.Step)
		}
		if len(r.Iteration) > 0 {
			line += "[" + courier.FormatIteration(r.Iteration) + "]"
		}
		line += " " + string(r.State)
		if r.Reason != "" {
			line += " " + string(r.Reason)
		}
		if len(r.Outputs) > 0 {
			line += " " + string(r.Outputs)
		}
		list = append(list, line)
	}
	return list
}

// obeyed reports a step that started after an acknowledged request that forbids it.
func (d *drill) obeyed(a acknowledged) {
	d.Helper()
	for _, e := range d.audit()[a.seq:] {
		switch {
		case e.Step != nil && e.To == string(courier.StepRunning):
			d.Errorf("step %d started as entry %d, after a %s was acknowledged at entry %d", *e.Step, e.Seq, a.kind, a.seq)
			return
		case e.Step == nil && (e.To == string(courier.Paused) || courier.State(e.To).Ended()):
			return
		}
	}
}

func (d *drill) audit() []courier.AuditEntry {
	d.Helper()
	list, err := d.store.Audit(context.Background(), store.AuditFilter{Execution: d.id})
	if err != nil {
		d.Fatal(err)
	}
	return list
}

func (d *drill) records() []courier.StepExecution {
	d.Helper()
	list, err := d.store.Steps(context.Background(), store.StepFilter{Execution: d.id})
	if err != nil {
		d.Fatal(err)
	}
	return list
}

// story returns the audit as text for people.
func (d *drill) story() string {
	var b strings.Builder
	for _, e := range d.audit() {
		what := "execution"
		if e.Step != nil {
			what = fmt.Sprintf("step %d%v attempt %d", *e.Step, e.Iteration, e.Attempt)
		}
		fmt.Fprintf(&b, "%3d %s %-10s %s: %s > %s %s %s\n", e.Seq, e.At.Format("04:05.00"), e.Worker, what, e.From, e.To, e.Reason, e.By)
	}
	return b.String()
}

// errOf returns the error of a call whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }
