package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A scenario is a job, what is done with it through the proxy, and what must
// come of each of its executions.
type scenario struct {
	name     string
	job      courier.Job
	slots    int               // of an engine; 0 means 1
	fresh    bool              // when cold, the store itself is a new one
	deaf     bool              // what the server executes is not cancelled when its client is gone
	beside   bool              // the second engine's connections can't be cut
	settings map[string]string // limits that are set meanwhile, by scope
	limits   map[string]int    // what must hold; "JOB" stands for the job's name
	atOnce   int               // executions at most; 0 means any number
	lost     int               // workers, when undisturbed
	act      func(*trial)
	check    func(*trial) // what is particular; nil if nothing is
	state    courier.State
	moves    []string // how it changed, but for ways into and out of the queue
	trace    []string // how steps ended, in order
}

type config = map[string]any

func does(c config) courier.StepSpec      { return courier.StepSpec{Type: "cut.do", Config: c} }
func gives(v any) courier.StepSpec        { return does(config{"value": v}) }
func fails(v, times any) courier.StepSpec { return does(config{"value": v, "fails": times}) }
func waits(v any) courier.StepSpec        { return does(config{"value": v, "waits": true}) }
func foreach(list any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.foreach", Config: config{"source": list}}
}

var (
	otherwise = courier.StepSpec{Type: "flow.else"}
	end       = courier.StepSpec{Type: "flow.end"}
)

const item = "context:loop.current_item"

func steps(list ...courier.StepSpec) courier.Job { return courier.Job{Steps: list} }

func policy(p courier.Policy, list ...courier.StepSpec) courier.Job {
	return courier.Job{FailurePolicy: courier.FailurePolicy{Type: p, BackoffBase: new(5 * time.Millisecond)}, Steps: list}
}

// runs returns what clients do who create n executions and wait for their ends.
func runs(n int, opt *courier.EnqueueOptions) func(*trial) {
	return func(tr *trial) {
		tr.start(tr.first)
		tr.define()
		for range n {
			tr.enqueue(opt)
		}
		tr.wait()
	}
}

var (
	completed = []string{"completed"}
	three     = []string{`0 completed {"value":1}`, `1 completed {"value":1}`, `2 completed {"value":"1 and 1"}`}
)

func threeSteps() []courier.StepSpec {
	return []courier.StepSpec{gives(1), gives("context:0.value"), gives("${context:0.value} and ${context:1.value}")}
}

const large = 100_000

var scenarios = []scenario{
	{
		name: "chain", act: (*trial).chain, check: (*trial).checkChain, job: steps(gives(1)),
		state: courier.Completed, moves: completed, trace: []string{`0 completed {"value":1}`},
	},
	{
		name: "linear", fresh: true, act: runs(1, nil),
		job:   steps(gives(config{"a": []any{1, "two"}}), gives("context:0.value.a"), gives("context:1.value[1]"), gives("${context:2.value}!"), gives(nil)),
		state: courier.Completed, moves: completed,
		trace: []string{
			`0 completed {"value":{"a":[1,"two"]}}`, `1 completed {"value":[1,"two"]}`, `2 completed {"value":"two"}`,
			`3 completed {"value":"two!"}`, `4 completed {"value":null}`,
		},
	},
	{
		name: "foreach", act: runs(1, nil),
		job:   steps(gives([]any{"x", "y", "z"}), foreach("context:0.value"), gives(item), gives("${context:2.value}, ${context:loop.index}"), end, gives("context:3.value")),
		state: courier.Completed, moves: completed,
		trace: []string{
			`0 completed {"value":["x","y","z"]}`,
			`2[0] completed {"value":"x"}`, `3[0] completed {"value":"x, 0"}`,
			`2[1] completed {"value":"y"}`, `3[1] completed {"value":"y, 1"}`,
			`2[2] completed {"value":"z"}`, `3[2] completed {"value":"z, 2"}`,
			`5 completed {"value":"z, 2"}`,
		},
	},
	{
		name: "branch", act: runs(1, nil),
		job: steps(foreach([]any{1, 10}),
			courier.StepSpec{Type: "flow.if", Config: config{"left": item, "operator": "greater_than", "right": 5}},
			gives("big"), otherwise, gives("small"), end, gives(item), end),
		state: courier.Completed, moves: completed,
		trace: []string{
			`4[0] completed {"value":"small"}`, `6[0] completed {"value":1}`, `2[1] completed {"value":"big"}`, `6[1] completed {"value":10}`,
		},
	},
	{
		name: "retried_step", act: runs(1, nil),
		job:   policy(courier.RetryStep, gives(1), fails("context:0.value", 2), gives("context:1.value")),
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 failed error`, `1 failed error`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name: "long_loop", act: runs(1, nil),
		job:   policy(courier.RetryStep, foreach([]any{0, 1, 0, 2, 0, 0, 1}), fails(item, item), end),
		state: courier.Completed, moves: completed,
		trace: []string{
			`1[0] completed {"value":0}`, `1[1] failed error`, `1[1] completed {"value":1}`, `1[2] completed {"value":0}`,
			`1[3] failed error`, `1[3] failed error`, `1[3] completed {"value":2}`, `1[4] completed {"value":0}`,
			`1[5] completed {"value":0}`, `1[6] failed error`, `1[6] completed {"value":1}`,
		},
	},
	{
		name: "retried_job", act: runs(1, nil),
		job:   policy(courier.RetryJob, gives("context:job.attempt"), fails("context:0.value", 1), gives("context:1.value")),
		state: courier.Completed, moves: completed,
		trace: []string{
			`0 completed {"value":1}`, `1 failed error`,
			`again 2: 0 completed {"value":2}`, `again 2: 1 completed {"value":2}`, `again 2: 2 completed {"value":2}`,
		},
	},
	{
		name: "skipped", act: runs(1, nil),
		job:   policy(courier.SkipAndContinue, gives(1), fails("never", 9), gives("context:0.value")),
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 skipped error`, `2 completed {"value":1}`},
	},
	{
		name: "resumed",
		job:  steps(gives(1), fails("context:0.value", 1), gives("context:1.value")),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.enqueue(nil)
			tr.reaches(courier.Failed)
			tr.request("resume", tr.resume)
			tr.reaches(courier.Completed)
		},
		state: courier.Completed, moves: []string{"failed", "queued by ops", "completed"},
		trace: []string{`0 completed {"value":1}`, `1 failed error`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name: "paused",
		job:  steps(gives(1), waits("context:0.value"), gives("context:1.value")),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.enqueue(nil)
			tr.waits()
			tr.request("pause", tr.first.Pause)
			close(tr.gate)
			tr.reaches(courier.Paused)
			tr.request("resume", tr.resume)
			tr.wait()
		},
		state: courier.Completed, moves: []string{"paused by ops", "queued by ops", "completed"},
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name: "blocked", deaf: true,
		job:   steps(gives(1), waits("context:0.value"), gives("context:1.value")),
		act:   (*trial).block,
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name: "cancelled",
		job:  steps(gives(1), waits(2), gives(3)),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.enqueue(nil)
			tr.waits()
			tr.ask("cancel", func(ctx context.Context) error {
				_, err := tr.first.Cancel(ctx, tr.ids[0], &courier.CancelOptions{By: courier.By{Actor: "ops"}})
				return err
			})
			tr.wait()
		},
		state: courier.Cancelled, moves: []string{"cancelled by ops"},
		trace: []string{`0 completed {"value":1}`, `1 failed cancelled`},
	},
	{
		name: "timed_out", act: runs(1, nil),
		job: policy(courier.RetryStep, gives(1),
			courier.StepSpec{Type: "cut.do", Timeout: new(100 * time.Millisecond), Config: config{"value": 2, "fails": 1, "hangs": true}}, gives(3)),
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 failed timeout`, `1 completed {"value":2}`, `2 completed {"value":3}`},
	},
	{
		name: "renewed", fresh: true, act: runs(1, nil),
		job:   steps(does(config{"value": 1, "takes": 0.75}), gives(2)),
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":2}`},
	},
	{
		name: "held",
		job:  steps(threeSteps()...),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.enqueue(&courier.EnqueueOptions{Hold: true, Delay: 30 * time.Millisecond})
			tr.request("release", tr.first.Release)
			tr.wait()
		},
		state: courier.Completed, moves: []string{"queued by ops", "completed"}, trace: three,
	},
	{
		name: "idempotent",
		job:  steps(threeSteps()...),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.ask("save", func(ctx context.Context) error {
				_, err := tr.store.Save(ctx, store.Definition{Kind: store.Chain, Name: tr.job, Body: json.RawMessage("{}")})
				return err
			})
			opt := &courier.EnqueueOptions{IdempotencyKey: "key", Params: map[string]any{"day": 1}}
			first, second := tr.enqueue(opt), tr.enqueue(opt)
			if tr.ids = tr.ids[:1]; first != second {
				tr.fatal("one key has made %s and %s", first, second)
			}
			tr.wait()
		},
		check: func(tr *trial) {
			if d, err := tr.direct.Load(tr.ctx, store.Chain, tr.job, 0); err != nil || d.Version != 1 {
				tr.report("the chain has version %d, %v", d.Version, err)
			}
		},
		state: courier.Completed, moves: completed, trace: three,
	},
	{
		name: "in_transaction",
		job:  steps(threeSteps()...),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.ask("order", tr.order)
			tr.wait()
		},
		check: func(tr *trial) {
			var n int
			err := tr.past.QueryRow(tr.ctx, "select count(*) from "+tr.schema+".orders where id = $1", tr.job).Scan(&n)
			if err != nil || n != 1 {
				tr.report("%d orders, %v", n, err)
			}
		},
		state: courier.Completed, moves: completed, trace: three,
	},
	{
		name: "at_once", fresh: true, slots: 3,
		job: steps(threeSteps()...),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			var list []store.NewExecution
			for range 3 {
				tr.ask("prepare", func(ctx context.Context) error {
					n, err := tr.first.Prepare(ctx, tr.job, nil)
					if err == nil {
						list = append(list, n)
					}
					return err
				})
			}
			tr.ask("enqueue all", func(ctx context.Context) error {
				_, err := tr.first.EnqueueAll(ctx, list)
				return err
			})
			for _, n := range list {
				tr.ids = append(tr.ids, n.ID)
			}
			tr.wait()
		},
		state: courier.Completed, moves: completed, trace: three,
	},
	{
		name: "beside", slots: 1, beside: true,
		job: steps(threeSteps()...),
		act: func(tr *trial) {
			tr.start(tr.second)
			runs(2, nil)(tr)
		},
		state: courier.Completed, moves: completed, trace: three,
	},
	{
		name: "taken_over", lost: 1,
		job:   steps(gives(1), waits(2), gives(3)),
		act:   (*trial).takeOver,
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":2}`, `2 completed {"value":3}`},
	},
	{
		name: "handed_over", fresh: true,
		job: steps(gives(1), waits("context:0.value"), gives("context:1.value")),
		act: func(tr *trial) {
			tr.start(tr.first)
			tr.define()
			tr.enqueue(nil)
			tr.waits()
			tr.start(tr.second)
			tr.halt(tr.first)
			close(tr.gate)
			tr.wait()
		},
		state: courier.Completed, moves: completed,
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name: "global_limit", slots: 2,
		act: func(tr *trial) {
			tr.start(tr.second)
			runs(2, nil)(tr)
		},
		job:      steps(threeSteps()[:2]...),
		settings: map[string]string{"": "1"}, limits: map[string]int{"": 1}, atOnce: 1,
		state: courier.Completed, moves: completed, trace: three[:2],
	},
	{
		name: "job_limit", slots: 3, act: runs(3, nil),
		job:    courier.Job{Limit: 2, Steps: threeSteps()[:2]},
		limits: map[string]int{"job:JOB": 2}, atOnce: 2,
		state: courier.Completed, moves: completed, trace: three[:2],
	},
	{
		name: "key_limit", slots: 3,
		job: courier.Job{LimitKeys: []string{"${context:params.partner}"}, Steps: threeSteps()[:2]},
		act: func(tr *trial) {
			tr.ask("limit", func(ctx context.Context) error { return tr.first.Limits().Set(ctx, "key:a", 1, courier.By{}) })
			tr.start(tr.first)
			tr.define()
			for _, partner := range []string{"a", "a", "b"} {
				tr.enqueue(&courier.EnqueueOptions{Params: map[string]any{"partner": partner}})
			}
			tr.wait()
		},
		settings: map[string]string{"key:a": "5"}, limits: map[string]int{"key:a": 1},
		state: courier.Completed, moves: completed, trace: three[:2],
	},
	{
		name: "large", act: runs(1, nil),
		job:   steps(does(config{"large": true}), does(config{"large": true, "value": "context:0.value"}), gives("done")),
		state: courier.Completed, moves: completed,
		trace: []string{"0 completed " + largeOutput, `1 completed {"value":100000}`, `2 completed {"value":"done"}`},
	},
}

var largeText = func() string {
	var b strings.Builder
	for i := 0; b.Len() < large; i++ {
		fmt.Fprintf(&b, "%d ", i*i)
	}
	return b.String()[:large]
}()

var largeOutput = func() string {
	text := `{"value":"` + largeText + `"}`
	return fmt.Sprintf("%d bytes, %08x", len(text), crc32.ChecksumIEEE([]byte(text)))
}()

// order writes an order of the host's and creates an execution for it, both or
// neither. The client does it again when it can't know.
func (tr *trial) order(ctx context.Context) error {
	n, err := tr.first.Prepare(ctx, tr.job, &courier.EnqueueOptions{IdempotencyKey: tr.job})
	if err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, tr.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into "+tr.schema+".orders (id) values ($1) on conflict do nothing", tr.job); err != nil {
			return err
		}
		got, err := tr.store.EnqueueTx(ctx, tx, []store.NewExecution{n})
		if err == nil {
			tr.ids = []courier.ExecutionID{got[0].Execution.ID}
		}
		return err
	})
}

// block has the server wait while it writes how a step ended. If that connection
// is cut, the server still writes when it can, and so does who sends it again.
func (tr *trial) block() {
	tr.start(tr.first)
	tr.define()
	id := tr.enqueue(nil)
	tr.waits()
	tx, err := tr.past.Begin(tr.ctx)
	if err == nil {
		_, err = tx.Exec(tr.ctx, "select from "+tr.schema+".job_executions where id = $1::text::uuid for update", string(id))
	}
	if err != nil {
		tr.fatal("%v", err)
	}
	close(tr.gate)
	time.Sleep(cutPoll)
	if err := tx.Rollback(tr.ctx); err != nil {
		tr.fatal("%v", err)
	}
	tr.wait()
}

// takeOver has a worker claim the execution that is not heard of any more. The
// engine takes it over, and what that worker writes then is refused.
func (tr *trial) takeOver() {
	tr.define()
	id := tr.enqueue(nil)
	claims, err := tr.direct.Claim(tr.ctx, store.ClaimRequest{
		Worker: "dead", Workspace: "here", StepTypes: []string{"cut.do"}, Queues: []string{tr.job}, Max: 1, Lease: 100 * time.Millisecond,
	})
	if err != nil || len(claims.List) != 1 {
		tr.fatal("claim: %d executions, %v", len(claims.List), err)
	}
	dead := claims.List[0]
	if dead.Started == nil {
		tr.fatal("the claim has not started the first step")
	}
	begin := store.Transition{Execution: id, Lease: dead.Token, Seq: dead.Seq, To: courier.Running, Counters: store.Counters{Attempts: 1}}
	tr.start(tr.first)
	tr.waits()
	tr.zombie(begin)
	close(tr.gate)
	tr.wait()
	tr.zombie(begin)
}

// zombie writes as the worker that was taken over: what comes next for all that
// it knows, and what would fit if its lease did.
func (tr *trial) zombie(t store.Transition) {
	t.Ended = []courier.StepExecution{{Step: 0, Type: "cut.do", Attempt: 1, State: courier.StepCompleted}}
	t.Position.Step = 1
	audit, err := tr.direct.Audit(tr.ctx, store.AuditFilter{Execution: t.Execution})
	if err != nil {
		tr.fatal("%v", err)
	}
	for _, seq := range []int64{t.Seq + 1, int64(len(audit)) + 1} {
		t.Seq = seq
		if err := tr.direct.Apply(tr.ctx, t); !errors.Is(err, courier.ErrLeaseLost) {
			tr.report("a worker that was taken over wrote transition %d: %v", seq, err)
		}
	}
}
