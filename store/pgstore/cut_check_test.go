package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/store"
)

// A labor is the configuration of a step of a scenario.
type labor struct {
	Value any     `json:"value"` // its output
	Large bool    `json:"large"` // a large text instead, or the size of the value
	Fails int     `json:"fails"` // times, before it succeeds
	Hangs bool    `json:"hangs"` // until its context ends, instead of failing
	Waits bool    `json:"waits"` // at the gate
	Takes float64 `json:"takes"` // seconds
}

type product struct {
	Value any `json:"value"`
}

// labors remember in memory which steps were executed.
type labors struct {
	mu      sync.Mutex
	runs    map[string]int // by execution, step and iteration
	started map[string]bool
	last    map[string]string // the place where an attempt of an execution is
	working map[courier.ExecutionID]bool
	most    int // executions that were worked on at once
}

func (l *labors) init() {
	l.runs, l.started, l.last = make(map[string]int), make(map[string]bool), make(map[string]string)
	l.working = make(map[courier.ExecutionID]bool)
}

func place(id courier.ExecutionID, step int, iteration []int) string {
	return fmt.Sprintf("%s/%d[%s]", id, step, courier.FormatIteration(iteration))
}

// begin notes that a step is executed. It is an error if it was before and
// another one has started since, for then its completion was committed.
func (l *labors) begin(job *courier.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	attempt, _ := courier.TryGet[int](job, "job.attempt")
	of := fmt.Sprintf("%s/%d", job.Execution(), attempt)
	at := place(job.Execution(), job.Step(), job.Iteration())
	l.runs[at]++
	l.working[job.Execution()] = true
	l.most = max(l.most, len(l.working))
	key := fmt.Sprintf("%s of attempt %d", at, attempt)
	if l.started[key] && l.last[of] != key {
		return fmt.Errorf("step %s is executed again, after %s", key, l.last[of])
	}
	l.started[key], l.last[of] = true, key
	return nil
}

func (l *labors) end(id courier.ExecutionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.working, id)
}

// labor is the step of all scenarios.
func (tr *trial) labor(ctx context.Context, job *courier.Context, do labor) (product, error) {
	if err := tr.labors.begin(job); err != nil {
		tr.report("%v", err)
	}
	defer tr.labors.end(job.Execution())
	if do.Fails > 0 {
		failures, err := tr.failures(job)
		switch {
		case err != nil:
			return product{}, err
		case failures < do.Fails && do.Hangs:
			<-ctx.Done()
			return product{}, ctx.Err()
		case failures < do.Fails:
			return product{}, errors.New("as told")
		}
	}
	if do.Waits {
		select {
		case tr.started <- struct{}{}:
		default:
		}
		select {
		case <-tr.gate:
		case <-ctx.Done():
			return product{}, ctx.Err()
		}
	}
	if do.Takes > 0 {
		timer := time.NewTimer(time.Duration(do.Takes * float64(time.Second)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return product{}, ctx.Err()
		}
	}
	switch text, ok := do.Value.(string); {
	case do.Large && ok:
		return product{len(text)}, nil
	case do.Large:
		return product{largeText}, nil
	}
	return product{do.Value}, nil
}

// failures is how often a step failed in this attempt of the execution, as the
// store knows: a failure that was not written has not happened.
func (tr *trial) failures(job *courier.Context) (int, error) {
	list, err := tr.direct.Steps(tr.ctx, store.StepFilter{Execution: job.Execution()})
	n := 0
	for _, r := range list {
		if r.Step == job.Step() && slices.Equal(r.Iteration, job.Iteration()) && r.State == courier.StepFailed && r.Reason != courier.ReasonWorkerLost {
			n++
		}
	}
	return n, err
}

// check compares the state in the store with the expected one.
func (tr *trial) check() {
	ctx, cancel := context.WithTimeout(context.Background(), cutLimit)
	defer cancel()
	list, err := tr.direct.Executions(ctx, store.Filter{Job: tr.job})
	if err != nil {
		tr.fatal("%v", err)
	}
	var ids []courier.ExecutionID
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	slices.Sort(ids)
	slices.Sort(tr.ids)
	if !slices.Equal(ids, tr.ids) {
		tr.fatal("the executions are\n%v\nand acknowledged were\n%v", ids, tr.ids)
	}
	limits := make(map[string]int)
	for scope, n := range tr.scenario.limits {
		limits[strings.ReplaceAll(scope, "JOB", tr.job)] = n
	}
	if err := promise.Check(ctx, tr.direct, ids, promise.Rules{Limits: limits}); err != nil {
		tr.report("%v", err)
	}
	if n := tr.scenario.atOnce; n > 0 && tr.labors.most > n {
		tr.report("steps of %d executions were executed at once, where %d may be", tr.labors.most, n)
	}
	if d, err := tr.direct.Load(ctx, store.Job, tr.job, 0); err != nil || d.Version != 1 {
		tr.report("the job has version %d, %v", d.Version, err)
	}
	for i := range list {
		tr.checkOne(ctx, &list[i])
	}
	if tr.scenario.check != nil {
		tr.scenario.check(tr)
	}
}

// lostIn counts the workers that an execution lost.
func lostIn(audit []courier.AuditEntry) (n int) {
	for _, e := range audit {
		if e.Step == nil && e.Reason == courier.ReasonWorkerLost {
			n++
		}
	}
	return n
}

// countLost counts the workers that were lost in a trial that ended before check
// could do so.
func (tr *trial) countLost() {
	if tr.err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cutLimit)
	defer cancel()
	for _, id := range tr.ids {
		audit, err := tr.direct.Audit(ctx, store.AuditFilter{Execution: id})
		if err != nil {
			tr.report("%v", err)
		}
		tr.lost = max(tr.lost, lostIn(audit)-tr.scenario.lost)
	}
}

// checkOne checks one execution.
func (tr *trial) checkOne(ctx context.Context, x *courier.Execution) {
	audit, err := tr.direct.Audit(ctx, store.AuditFilter{Execution: x.ID})
	if err != nil {
		tr.fatal("%v", err)
	}
	records, err := tr.direct.Steps(ctx, store.StepFilter{Execution: x.ID})
	if err != nil {
		tr.fatal("%v", err)
	}
	lost := lostIn(audit) - tr.scenario.lost
	tr.lost = max(tr.lost, lost)
	tr.compareRuns(x, audit, records)
	if x.Failure != nil && x.Failure.Reason == courier.ReasonWorkerLost {
		return // so many were lost that the trial is late
	}
	if x.State != tr.scenario.state {
		tr.report("execution %s is %s, want %s", x.ID, x.State, tr.scenario.state)
	}
	tr.compare(x, "moves", moves(audit), tr.scenario.moves, lost > 0)
	tr.compare(x, "steps", trace(records), tr.scenario.trace, lost > 0)
}

// compare reports lists that differ. The step that a cancel interrupts may
// never have started under a worker that was lost.
func (tr *trial) compare(x *courier.Execution, what string, got, want []string, lost bool) {
	if lost {
		cancelled := func(line string) bool { return strings.HasSuffix(line, "failed cancelled") }
		got, want = slices.DeleteFunc(got, cancelled), slices.DeleteFunc(slices.Clone(want), cancelled)
	}
	if !slices.Equal(got, want) {
		tr.report("%s of execution %s:\n  %s\nwant\n  %s", what, x.ID, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// compareRuns compares how often steps were executed with what the store knows:
// not more often than they started, and as often as they ended at least.
func (tr *trial) compareRuns(x *courier.Execution, audit []courier.AuditEntry, records []courier.StepExecution) {
	started, ended := make(map[string]int), make(map[string]int)
	for _, e := range audit {
		if e.Step != nil && e.To == string(courier.StepRunning) {
			started[place(x.ID, *e.Step, e.Iteration)]++
		}
	}
	for _, r := range records {
		if r.Reason != courier.ReasonWorkerLost && r.Reason != courier.ReasonCancelled {
			ended[place(x.ID, r.Step, r.Iteration)]++
		}
	}
	tr.labors.mu.Lock()
	defer tr.labors.mu.Unlock()
	for at, n := range tr.labors.runs {
		if strings.HasPrefix(at, string(x.ID)) && n > started[at] {
			tr.report("step %s was executed %d times and started %d times", at, n, started[at])
		}
	}
	for at, n := range ended {
		if tr.labors.runs[at] < n {
			tr.report("step %s was executed %d times and ended %d times", at, tr.labors.runs[at], n)
		}
	}
}

// moves returns how an execution changed, without its ways into and out of the
// queue that no operator requested.
func moves(audit []courier.AuditEntry) []string {
	var list []string
	for _, e := range audit {
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

// trace returns how steps ended, without those of lost workers.
func trace(records []courier.StepExecution) []string {
	var list []string
	for _, r := range records {
		if r.Reason == courier.ReasonWorkerLost {
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
			line += " " + abridged(string(r.Outputs))
		}
		list = append(list, line)
	}
	return list
}

// abridged is a text, or its size and sum if it is long.
func abridged(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%d bytes, %08x", len(s), crc32.ChecksumIEEE([]byte(s)))
	}
	return s
}

// story is the audit of all executions for people.
func (tr *trial) story() string {
	ctx, cancel := context.WithTimeout(context.Background(), cutLimit)
	defer cancel()
	var b strings.Builder
	list, err := tr.direct.Executions(ctx, store.Filter{Job: tr.job})
	if err != nil {
		return err.Error()
	}
	for i := range list {
		fmt.Fprintf(&b, "execution %s\n", list[i].ID)
		audit, err := tr.direct.Audit(ctx, store.AuditFilter{Execution: list[i].ID})
		if err != nil {
			return err.Error()
		}
		for _, e := range audit {
			what := "execution"
			if e.Step != nil {
				what = fmt.Sprintf("step %d%v attempt %d", *e.Step, e.Iteration, e.Attempt)
			}
			fmt.Fprintf(&b, "%3d %s %s: %s: %s > %s %s %s\n", e.Seq, e.At.Format("04:05.000"), e.Worker, what, e.From, e.To, e.Reason, e.By)
		}
	}
	return b.String()
}
