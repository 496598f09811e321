package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/stepcontext"
)

// A pipeline is a job, and the steps that each completed execution of it has
// taken, with their outputs.
type pipeline struct {
	job   courier.Job
	trace []string // "step[iteration]=value", or "step[iteration] skipped"
}

type config = map[string]any

func does(c config) courier.StepSpec { return courier.StepSpec{Type: "chaos.add", Config: c} }

func foreach(source any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.foreach", Config: config{"source": source}}
}

func when(left any, operator string, right any) courier.StepSpec {
	return courier.StepSpec{Type: "flow.if", Config: config{"left": left, "operator": operator, "right": right}}
}

func value(step int) string { return fmt.Sprintf("context:%d.value", step) }

var (
	otherwise = courier.StepSpec{Type: "flow.else"}
	end       = courier.StepSpec{Type: "flow.end"}
)

const item = "context:loop.current_item"

func soon(p courier.Policy) courier.FailurePolicy {
	return courier.FailurePolicy{Type: p, BackoffBase: new(20 * time.Millisecond)}
}

// pipelines are all that is executed here. None has a loop that a resume starts
// again, so no completed step is ever repeated.
var pipelines = []pipeline{
	{
		courier.Job{Name: "plain", Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1}), does(config{"in": value(1), "add": 1}),
			does(config{"in": value(2), "add": 1}), does(config{"in": value(3), "add": 1}),
		}},
		[]string{"0[]=1", "1[]=2", "2[]=3", "3[]=4", "4[]=5"},
	},
	{
		courier.Job{Name: "loop", Limit: 4, Steps: []courier.StepSpec{
			does(config{"add": 1}),
			foreach([]any{10, 20, 30}), does(config{"in": value(0), "add": item}), does(config{"in": value(2), "add": 1}), end,
			does(config{"in": value(3)}),
		}},
		[]string{"0[]=1", "2[0]=11", "3[0]=12", "2[1]=21", "3[1]=22", "2[2]=31", "3[2]=32", "5[]=32"},
	},
	{
		courier.Job{Name: "branches", Steps: []courier.StepSpec{
			foreach([]any{1, 10, 2}),
			when(item, "greater_than", 5), does(config{"add": 100}), otherwise, does(config{"add": 200}), end,
			does(config{"in": item}),
			end,
		}},
		[]string{"4[0]=200", "6[0]=1", "2[1]=100", "6[1]=10", "4[2]=200", "6[2]=2"},
	},
	{
		courier.Job{Name: "retried", FailurePolicy: soon(courier.RetryStep), Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1, "fails": "first"}),
			foreach([]any{1, 2}), does(config{"in": item, "fails": "first"}), end,
		}},
		[]string{"0[]=1", "1[]=2", "3[0]=1", "3[1]=2"},
	},
	{
		courier.Job{Name: "again", FailurePolicy: soon(courier.RetryJob), Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1, "fails": "job"}), does(config{"in": value(1), "add": 1}),
		}},
		[]string{"0[]=1", "1[]=2", "2[]=3"},
	},
	{
		courier.Job{Name: "failing", Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1, "fails": "first"}), does(config{"in": value(1), "add": 1}),
		}},
		[]string{"0[]=1", "1[]=2", "2[]=3"},
	},
	{
		courier.Job{Name: "skipping", FailurePolicy: courier.FailurePolicy{Type: courier.SkipAndContinue}, Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"fails": "always"}), does(config{"in": value(0), "add": 1}),
		}},
		[]string{"0[]=1", "1[] skipped", "2[]=2"},
	},
	{
		courier.Job{Name: "long", Steps: []courier.StepSpec{
			does(config{"add": 1}), does(config{"in": value(0), "add": 1, "takes": 500}), does(config{"in": value(1), "add": 1}),
		}},
		[]string{"0[]=1", "1[]=2", "2[]=3"},
	},
	{
		courier.Job{Name: "files", Steps: []courier.StepSpec{
			does(config{"add": 7}),
			{Type: "chaos.write", Config: config{"name": "note", "in": value(0)}},
			{Type: "chaos.read", Config: config{"name": "note"}},
			does(config{"in": value(2), "add": 1}),
		}},
		[]string{"0[]=7", "1[]=7", "2[]=7", "3[]=8"},
	},
}

// unlucky reports whether an execution is one of those in which a step that fails
// in some does so: about one in four, which follow from the id.
func unlucky(id courier.ExecutionID) bool { return crc32.ChecksumIEEE([]byte(id))%4 == 0 }

// traces holds the trace of each pipeline by the name of its job.
func traces() map[string][]string {
	m := make(map[string][]string)
	for _, p := range slices.Concat(pipelines, unattended) {
		m[p.job.Name] = p.trace
	}
	return m
}

// A result is the output of all steps here.
type result struct {
	Value int `json:"value"`
}

type addition struct {
	In    int    `json:"in"`
	Add   int    `json:"add"`
	Takes int    `json:"takes" default:"2"` // milliseconds
	Fails string `json:"fails"`             // "first" attempt, first attempt of the "job", "always", "some" executions, "bad" items
	Until string `json:"until"`             // a file: bad items fail until it exists
}

type file struct {
	Name string `json:"name"`
	In   int    `json:"in"`
}

// steps are the step types. They note each attempt in a log of their own.
type steps struct {
	notes *journal
	point func(name string) // called where a process may be told to end
}

func (s *steps) registry() *courier.Registry {
	r := new(courier.Registry)
	courier.Register(r, "chaos.add", adder{s}, nil)
	courier.RegisterFunc(r, "chaos.write", noted(s, write), nil)
	courier.RegisterFunc(r, "chaos.read", noted(s, read), nil)
	return r
}

// A note is what a step writes down about an attempt.
type note struct {
	At        int64               `json:"t"` // monotonic
	Execution courier.ExecutionID `json:"x"`
	Of        int                 `json:"of"` // attempt of the execution
	Step      int                 `json:"s"`
	Iteration string              `json:"i,omitempty"`
	ID        string              `json:"id,omitempty"` // of the step
	Attempt   int                 `json:"a"`
	Start     int                 `json:"n,omitempty"`   // the start number
	Dir       string              `json:"dir,omitempty"` // of the attempt
	What      string              `json:"what"`
	worker    string
}

// What a step notes.
const (
	began   = "began"
	done    = "done"
	failed  = "failed"
	stopped = "stopped"
)

// noted notes when f begins and how it ends.
func noted[C any](s *steps, f func(context.Context, *courier.Context, C) (result, error)) func(context.Context, *courier.Context, C) (result, error) {
	return func(ctx context.Context, job *courier.Context, cfg C) (result, error) {
		of, _ := courier.TryGet[int](job, "job.attempt")
		n := note{
			Execution: job.Execution(), Of: of, Step: job.Step(), Iteration: courier.FormatIteration(job.Iteration()),
			ID: job.ID(), Attempt: job.Attempt(), Start: stepcontext.Of(job).StartNumber(), What: began,
		}
		if n.ID != "" {
			n.Dir = job.Files().Dir()
		}
		s.note(&n)
		n.Dir = ""
		s.point("step began")
		out, err := f(ctx, job, cfg)
		switch {
		case err == nil:
			n.What = done
		case ctx.Err() != nil:
			n.What = stopped
		default:
			n.What = failed
		}
		s.point("step ends")
		s.note(&n)
		s.point("step ended")
		return out, err
	}
}

func (s *steps) note(n *note) {
	n.At, _ = clocks()
	s.notes.write(n)
}

// An adder adds, and takes its time.
type adder struct{ *steps }

func (a adder) Execute(ctx context.Context, job *courier.Context, cfg addition) (result, error) {
	return noted(a.steps, add)(ctx, job, cfg)
}

func (a adder) Cleanup(context.Context, *courier.Context, addition) error {
	a.point("cleanup")
	return nil
}

func (a adder) Rollback(context.Context, *courier.Context, addition) error {
	a.point("rollback")
	return nil
}

func add(ctx context.Context, job *courier.Context, cfg addition) (result, error) {
	t := time.NewTimer(time.Duration(cfg.Takes) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return result{}, context.Cause(ctx)
	}
	of, ok := courier.TryGet[int](job, "job.attempt")
	if !ok {
		return result{}, errors.New("the attempt of the job is not known")
	}
	if cfg.Fails == "always" || cfg.Fails == "some" && unlucky(job.Execution()) || cfg.Fails == "first" && job.Attempt() == 1 || cfg.Fails == "job" && of == 1 {
		return result{}, errors.New("as told")
	}
	if cfg.Fails == "bad" && cfg.Add%100 == bad {
		if _, err := os.Stat(cfg.Until); err != nil {
			return result{}, courier.Permanent(err)
		}
		time.Sleep(60 * time.Millisecond) // so that workers are lost in the repair too
	}
	return result{cfg.In + cfg.Add}, nil
}

func write(_ context.Context, job *courier.Context, f file) (result, error) {
	w, err := job.Files().Create(f.Name)
	if err != nil {
		return result{}, err
	}
	defer w.Close()
	if _, err := io.WriteString(w, strconv.Itoa(f.In)); err != nil {
		return result{}, err
	}
	return result{f.In}, w.Commit()
}

func read(_ context.Context, job *courier.Context, f file) (result, error) {
	r, err := job.Files().Open(f.Name)
	if err != nil {
		return result{}, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return result{}, err
	}
	n, err := strconv.Atoi(string(b))
	return result{n}, err
}

// valueOf reads the output of a step.
func valueOf(outputs json.RawMessage) (int, error) {
	var r result
	err := json.Unmarshal(outputs, &r)
	return r.Value, err
}
