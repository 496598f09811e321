package storetest

import (
	"encoding/json"
	"time"

	"github.com/courierhq/courier"
)

// A pipeline is a job, the requests that an operator makes during it, and the expected result.
// Its times are for a unit of one second.
type pipeline struct {
	name   string
	policy courier.FailurePolicy
	steps  []courier.StepSpec
	hold   bool
	// operate makes requests once the execution exists; nil if there are none.
	operate func(*drill)
	state   courier.State // in which it ends
	// moves are the changes of state, without those into and out of the queue that no
	// operator requested.
	moves []string
	// trace is how steps ended, in order.
	trace []string
}

// job returns the pipeline as a job for a unit.
func (p *pipeline) job(unit time.Duration) courier.Job {
	job := courier.Job{Name: p.name, FailurePolicy: p.policy, Steps: make([]courier.StepSpec, len(p.steps))}
	job.FailurePolicy.BackoffBase = scale(p.policy.BackoffBase, unit)
	for i, s := range p.steps {
		s.Timeout = scale(s.Timeout, unit)
		job.Steps[i] = s
	}
	return job
}

// scale converts seconds to units.
func scale(d *time.Duration, unit time.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return new(time.Duration(d.Seconds() * float64(unit)))
}

type config = map[string]any

// does returns a step with a configuration of [labor].
func does(c config) courier.StepSpec { return courier.StepSpec{Type: "drill.do", Config: c} }

// gives returns a step that takes a second and outputs a value.
func gives(v any) courier.StepSpec { return does(config{"value": v, "takes": 1}) }

// lasts returns a step that takes a number of seconds.
func lasts(v any, seconds float64) courier.StepSpec {
	return does(config{"value": v, "takes": seconds})
}

// fails returns a step that fails a number of times before it succeeds.
func fails(v, times any) courier.StepSpec {
	return does(config{"value": v, "takes": 1, "fails": times})
}

func foreach(source any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.foreach", Config: config{"source": source}}
}

// again is foreach for a loop that an operator's resume starts anew.
func again(source any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.foreach", Config: config{"source": source, "on_resume": "restart"}}
}

func when(left any, operator string, right any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.if", Config: config{"left": left, "operator": operator, "right": right}}
}

var (
	otherwise = courier.StepSpec{Type: "flow.else"}
	end       = courier.StepSpec{Type: "flow.end"}
)

const (
	item  = "context:loop.current_item"
	byOps = " by ops"
)

// faulty items: the second one fails once.
var items = []any{config{"name": "x", "fails": 0}, config{"name": "y", "fails": 1}}

// retries is a policy with a backoff that begins with a number of seconds.
func retries(p courier.Policy, seconds int) courier.FailurePolicy {
	return courier.FailurePolicy{Type: p, BackoffBase: new(time.Duration(seconds) * time.Second)}
}

// pipelines are the pipelines that Survive runs, with every kind of control flow, failure policy
// and request.
var pipelines = []pipeline{
	{
		name: "plain",
		steps: []courier.StepSpec{
			{ID: "get", Type: "drill.do", Config: config{"takes": 1, "value": config{
				"big": json.Number("9007199254740993"), "dec": json.Number("0.10"), "list": []any{1, "two", nil, true}, "text": `{"n": 1.50}`,
			}}},
			gives("context:get.value.big"),
			gives("${context:get.value.dec} of ${context:1.value}"),
			{Type: "drill.write", Config: config{"name": "note.txt", "text": "context:get.value.text"}},
			{Type: "drill.read", Config: config{"name": "context:3.value"}},
			gives("context:get.value.list"),
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`0 completed {"value":{"big":9007199254740993,"dec":0.10,"list":[1,"two",null,true],"text":"{\"n\": 1.50}"}}`,
			`1 completed {"value":9007199254740993}`,
			`2 completed {"value":"0.10 of 9007199254740993"}`,
			`3 completed {"value":"note.txt"}`,
			`4 completed {"value":"{\"n\": 1.50}"}`,
			`5 completed {"value":[1,"two",null,true]}`,
		},
	},
	{
		name: "loop",
		steps: []courier.StepSpec{
			gives(`["a", {"b": 9007199254740993}]`),
			foreach("context:0.value"), gives(item), gives("${context:2.value}, ${context:loop.index}"), end,
			lasts("context:3.value", 30), // longer than a lease
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`0 completed {"value":"[\"a\", {\"b\": 9007199254740993}]"}`,
			`2[0] completed {"value":"a"}`, `3[0] completed {"value":"a, 0"}`,
			`2[1] completed {"value":{"b":9007199254740993}}`, `3[1] completed {"value":"{\"b\":9007199254740993}, 1"}`,
			`5 completed {"value":"{\"b\":9007199254740993}, 1"}`,
		},
	},
	{
		name: "loop_in_loop",
		steps: []courier.StepSpec{
			foreach([]any{[]any{1, 2}, []any{}, []any{3}}), foreach(item), gives(item), end, gives("context:loop.index"), end,
			gives("context:2.value"),
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`2[0.0] completed {"value":1}`, `2[0.1] completed {"value":2}`, `4[0] completed {"value":0}`,
			`4[1] completed {"value":1}`,
			`2[2.0] completed {"value":3}`, `4[2] completed {"value":2}`,
			`6 completed {"value":3}`,
		},
	},
	{
		name: "branches",
		steps: []courier.StepSpec{
			gives(7),
			when("context:0.value", "greater_than", 5), gives("big"), otherwise, gives("small"), end,
			when("context:2.value", "equals", "small"), gives("not this"), otherwise, gives("context:2.value"), end,
			gives("context:9.value"),
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`0 completed {"value":7}`, `2 completed {"value":"big"}`, `9 completed {"value":"big"}`, `11 completed {"value":"big"}`,
		},
	},
	{
		name: "branch_in_loop",
		steps: []courier.StepSpec{
			foreach([]any{1, 10, 2}), when(item, "greater_than", 5), gives("big"), otherwise, gives("small"), end, gives(item), end,
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`4[0] completed {"value":"small"}`, `6[0] completed {"value":1}`,
			`2[1] completed {"value":"big"}`, `6[1] completed {"value":10}`,
			`4[2] completed {"value":"small"}`, `6[2] completed {"value":2}`,
		},
	},
	{
		name: "skipped", policy: courier.FailurePolicy{Type: courier.SkipAndContinue},
		steps: []courier.StepSpec{
			foreach(items), fails("context:loop.current_item.name", "context:loop.current_item.fails"), gives("context:loop.index"), end,
			when("a", "equals", "A"), fails("never", 9), gives("after"), end,
			gives("last"),
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`1[0] completed {"value":"x"}`, `2[0] completed {"value":0}`,
			`1[1] skipped error`, `2[1] completed {"value":1}`,
			`5 skipped error`, `6 completed {"value":"after"}`, `8 completed {"value":"last"}`,
		},
	},
	{
		name: "retried_step", policy: retries(courier.RetryStep, 1),
		steps: []courier.StepSpec{
			gives(1), fails("context:0.value", 2),
			foreach(items), fails("context:loop.current_item.name", "context:loop.current_item.fails"), end,
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`0 completed {"value":1}`, `1 failed error`, `1 failed error`, `1 completed {"value":1}`,
			`3[0] completed {"value":"x"}`, `3[1] failed error`, `3[1] completed {"value":"y"}`,
		},
	},
	{
		name: "retried_job", policy: retries(courier.RetryJob, 1),
		steps: []courier.StepSpec{
			gives("context:job.attempt"), foreach([]any{"x", "y"}), fails(item, 1), end, gives("context:0.value"),
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`0 completed {"value":1}`, `2[0] failed error`,
			`again 2: 0 completed {"value":2}`, `again 2: 2[0] completed {"value":"x"}`, `again 2: 2[1] failed error`,
			`again 3: 0 completed {"value":3}`, `again 3: 2[0] completed {"value":"x"}`, `again 3: 2[1] completed {"value":"y"}`,
			`again 3: 4 completed {"value":3}`,
		},
	},
	{
		name: "resumed",
		steps: []courier.StepSpec{
			foreach(items), fails("context:loop.current_item.name", "context:loop.current_item.fails"), end,
			again(items), gives("context:loop.index"), fails("context:loop.current_item.name", "context:loop.current_item.fails"), end,
		},
		operate: func(d *drill) {
			for _, step := range []int{1, 5} {
				d.until("it failed", func(x *courier.Execution) bool { return x.State == courier.Failed && x.Failure.Step == step })
				d.rest(courier.Failed)
				d.ask(courier.RequestResume)
			}
		},
		state: courier.Completed, moves: []string{"failed", "queued" + byOps, "failed", "queued" + byOps, "completed"},
		trace: []string{
			`1[0] completed {"value":"x"}`, `1[1] failed error`, `1[1] completed {"value":"y"}`,
			`4[0] completed {"value":0}`, `5[0] completed {"value":"x"}`, `4[1] completed {"value":1}`, `5[1] failed error`,
			`4[0] completed {"value":0}`, `5[0] completed {"value":"x"}`, `4[1] completed {"value":1}`, `5[1] completed {"value":"y"}`,
		},
	},
	{
		name:  "paused",
		steps: []courier.StepSpec{gives(1), lasts("context:0.value", 6), gives("context:1.value")},
		operate: func(d *drill) {
			d.running(1)
			d.pause()
		},
		state: courier.Completed, moves: []string{"paused" + byOps, "queued" + byOps, "completed"},
		trace: []string{`0 completed {"value":1}`, `1 completed {"value":1}`, `2 completed {"value":1}`},
	},
	{
		name:  "paused_in_loop",
		steps: []courier.StepSpec{foreach([]any{"x", "y", "z"}), lasts(item, 6), gives("context:1.value"), end},
		operate: func(d *drill) {
			d.running(1, 1)
			d.pause()
		},
		state: courier.Completed, moves: []string{"paused" + byOps, "queued" + byOps, "completed"},
		trace: []string{
			`1[0] completed {"value":"x"}`, `2[0] completed {"value":"x"}`,
			`1[1] completed {"value":"y"}`, `2[1] completed {"value":"y"}`,
			`1[2] completed {"value":"z"}`, `2[2] completed {"value":"z"}`,
		},
	},
	{
		name:  "cancelled",
		steps: []courier.StepSpec{gives(1), lasts(2, 60), gives(3)},
		operate: func(d *drill) {
			d.running(1)
			d.ask(courier.RequestCancel)
		},
		state: courier.Cancelled, moves: []string{"cancelled" + byOps},
		trace: []string{`0 completed {"value":1}`, `1 failed cancelled`},
	},
	{
		name: "cancelled_backing_off", policy: retries(courier.RetryStep, 30),
		steps: []courier.StepSpec{gives(1), fails(2, 9), gives(3)},
		operate: func(d *drill) {
			d.until("it backs off", func(x *courier.Execution) bool { return x.State == courier.Queued && x.Failure != nil })
			d.ask(courier.RequestCancel)
		},
		state: courier.Cancelled, moves: []string{"cancelled" + byOps},
		trace: []string{`0 completed {"value":1}`, `1 failed error`},
	},
	{
		name: "held", policy: retries(courier.RetryStep, 1), hold: true,
		steps: []courier.StepSpec{
			gives(1),
			{Type: "drill.do", Timeout: new(3 * time.Second), Config: config{"value": 2, "fails": 1, "hangs": true}},
			gives(3),
		},
		operate: func(d *drill) {
			d.rest(courier.Created)
			d.ask(courier.RequestRelease)
		},
		state: courier.Completed, moves: []string{"queued" + byOps, "completed"},
		trace: []string{`0 completed {"value":1}`, `1 failed timeout`, `1 completed {"value":2}`, `2 completed {"value":3}`},
	},
	{
		name:  "handed_over",
		steps: []courier.StepSpec{foreach([]any{"x", "y", "z"}), lasts(item, 6), gives("context:1.value"), end},
		operate: func(d *drill) {
			d.running(1, 1)
			d.restart()
		},
		state: courier.Completed, moves: []string{"completed"},
		trace: []string{
			`1[0] completed {"value":"x"}`, `2[0] completed {"value":"x"}`,
			`1[1] completed {"value":"y"}`, `2[1] completed {"value":"y"}`,
			`1[2] completed {"value":"z"}`, `2[2] completed {"value":"z"}`,
		},
	},
}
