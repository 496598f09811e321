package courier_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
)

func TestStateMoves(t *testing.T) {
	all := []courier.State{"", courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled}
	legal := map[[2]courier.State]bool{}
	for _, m := range []struct {
		from courier.State
		to   []courier.State
	}{
		{"", []courier.State{courier.Created, courier.Queued}},
		{courier.Created, []courier.State{courier.Queued, courier.Cancelled, courier.Failed}},
		{courier.Queued, []courier.State{courier.Running, courier.Paused, courier.Cancelled, courier.Failed, courier.Completed}},
		{courier.Running, []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Paused, courier.Queued}},
		{courier.Paused, []courier.State{courier.Queued, courier.Cancelled, courier.Failed}},
		{courier.Failed, []courier.State{courier.Queued, courier.Cancelled}},
	} {
		for _, to := range m.to {
			legal[[2]courier.State{m.from, to}] = true
		}
	}
	for _, from := range all {
		for _, to := range all {
			if got, want := from.CanBecome(to), legal[[2]courier.State{from, to}]; got != want {
				t.Errorf("%q.CanBecome(%q) = %v, want %v", from, to, got, want)
			}
		}
		if final := from.Final(); final != (from == courier.Completed || from == courier.Cancelled) {
			t.Errorf("%q.Final() = %v", from, final)
		}
	}
}

func TestTransitionErrorSaysWhatCanBeDone(t *testing.T) {
	err := error(&courier.TransitionError{Execution: "x", From: courier.Completed, To: courier.Cancelled})
	if !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "final") {
		t.Errorf("got %v", err)
	}
	err = &courier.TransitionError{Execution: "x", From: courier.Paused, To: courier.Running}
	if !strings.Contains(err.Error(), "can become queued, cancelled") {
		t.Errorf("got %v", err)
	}
	err = &courier.TransitionError{Execution: "x", From: courier.Queued, To: courier.Queued}
	if got := err.Error(); got != "execution x is queued already; nothing was changed" {
		t.Errorf("got %v", err)
	}
}

func TestBackoff(t *testing.T) {
	p := courier.FailurePolicy{Type: courier.RetryStep}
	for n, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute,
		62: time.Minute, 63: time.Minute, 64: time.Minute, 1000: time.Minute, math.MaxInt: time.Minute,
	} {
		if got := p.Backoff(n); got != want {
			t.Errorf("Backoff(%d) = %v, want %v", n, got, want)
		}
	}
	p.BackoffMax = new(time.Duration(math.MaxInt64))
	if got := p.Backoff(1000); got != math.MaxInt64 {
		t.Errorf("Backoff(1000) without a ceiling = %v", got)
	}
	p.BackoffBase = new(time.Duration(0))
	if got := p.Backoff(math.MaxInt); got != 0 {
		t.Errorf("Backoff with base 0 = %v, want 0", got)
	}
}

const jobJSON = `{"name":"invoices","failure_policy":{"type":"retry_step","max_retries":0,"backoff_base_seconds":0.25,"backoff_max_seconds":60},` +
	`"params":{"big":9007199254740993,"day":null},"queue":"night","limit":1,"limit_keys":["${context:params.partner}"],` +
	`"steps":[{"id":"get","type":"sftp.download","name":"Get it","timeout_seconds":1.5,"stall_timeout_seconds":0,"config":{"n":1.10,"path":"a<b"}},{"type":"flow.end"}]}`

func TestJobJSONRoundTrip(t *testing.T) {
	var job courier.Job
	if err := json.Unmarshal([]byte(jobJSON), &job); err != nil {
		t.Fatal(err)
	}
	if job.FailurePolicy.Retries() != 0 || *job.FailurePolicy.BackoffBase != 250*time.Millisecond {
		t.Errorf("policy = %+v", job.FailurePolicy)
	}
	if s := job.Steps[0]; *s.Timeout != 1500*time.Millisecond || *s.StallTimeout != 0 || s.Config["n"] != json.Number("1.10") {
		t.Errorf("step = %+v", s)
	}
	got, err := jsontext.Append(nil, job)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != jobJSON {
		t.Errorf("written back:\n%s\nwant:\n%s", got, jobJSON)
	}
	var again courier.Job
	if err := json.Unmarshal(got, &again); err != nil || !reflect.DeepEqual(job, again) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func TestFailurePolicyShortForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"name":"a","failure_policy":"retry_job","steps":[]}`:                  `{"name":"a","failure_policy":"retry_job","steps":[]}`,
		`{"name":"a","failure_policy":{"type":"skip_and_continue"},"steps":[]}`: `{"name":"a","failure_policy":"skip_and_continue","steps":[]}`,
		`{"name":"a","steps":[]}`:                                               `{"name":"a","steps":[]}`,
		`{"name":"a","failure_policy":{"max_retries":2},"steps":[]}`:            `{"name":"a","failure_policy":{"type":"stop","max_retries":2},"steps":[]}`,
		`{"name":"a","failure_policy":{"backoff_max_seconds":1e-3},"steps":[]}`: `{"name":"a","failure_policy":{"type":"stop","backoff_max_seconds":0.001},"steps":[]}`,
	} {
		var job courier.Job
		if err := json.Unmarshal([]byte(in), &job); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, _ := json.Marshal(job); string(got) != want {
			t.Errorf("%s: written back as %s, want %s", in, got, want)
		}
	}
}

func TestJobJSONIsStrict(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`:                         {"must be an object"},
		`nope`:                       {"invalid character"},
		`{"nmae":"a","steps":[]}`:    {`unknown field "nmae"; did you mean "name"?`},
		`{"name":"a","name":"b"}`:    {"name: given twice"},
		`{"name":1,"queue":2}`:       {"name: must be a string", "queue: must be a string"},
		`{"steps":{}}`:               {"steps: must be a list"},
		`{"steps":[1,{"tpye":"x"}]}`: {"step 0: must be an object", `step 1: unknown field "tpye"; did you mean "type"?`},
		`{"failure_policy":"retry"}`: {`unknown policy "retry"`},
		`{"failure_policy":{"type":"stop","max_retries":-1}}`: {"max_retries: -1 is negative"},
		`{"failure_policy":{"backoff_base_seconds":-0.5}}`:    {"backoff_base_seconds: -0.5 is negative"},
		`{"failure_policy":{"max_retry":1}}`:                  {`did you mean "max_retries"?`},
		`{"steps":[{"failure_policy":{}}]}`:                   {"step 0: failure_policy.type: is required"},
		`{"steps":[{"failure_policy":""}]}`:                   {"step 0: failure_policy.type: is required"},
		`{"steps":[{"type":"a.b","timeout_seconds":-1}]}`:     {"timeout_seconds: -1 is negative"},
		`{"steps":[{"type":"a.b","timeout_seconds":"1"}]}`:    {"timeout_seconds: must be a number of seconds"},
		`{"steps":[{"type":"a.b","timeout_seconds":1e300}]}`:  {"too large"},
		`{"steps":[{"type":"a.b","config":[]}]}`:              {"config: must be an object"},
	} {
		var job courier.Job
		err := json.Unmarshal([]byte(in), &job)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %v, want %q in it", in, err, w)
			}
		}
	}
}

func TestStatus(t *testing.T) {
	now := time.Now()
	for want, x := range map[string]courier.Execution{
		"queued":     {State: courier.Queued, DueAt: now},
		"scheduled":  {State: courier.Queued, DueAt: now.Add(time.Second)},
		"cancelling": {State: courier.Running, Request: courier.RequestCancel},
		"pausing":    {State: courier.Running, Request: courier.RequestPause},
		"running":    {State: courier.Running},
	} {
		if got := x.Status(now); got != want {
			t.Errorf("Status of %+v = %q, want %q", x, got, want)
		}
	}
}

func TestExecutionErr(t *testing.T) {
	x := courier.Execution{ID: "id", Job: "j", State: courier.Failed, Failure: &courier.Failure{
		Step: 3, ID: "get", Type: "sftp.download", Iteration: []int{2, 0}, Attempt: 4, Reason: courier.ReasonError, Message: "no route",
	}}
	err := x.Err()
	step, ok := errors.AsType[*courier.StepError](err)
	if !ok || step.Step != 3 || step.Attempt != 4 {
		t.Fatalf("Err() = %#v", err)
	}
	if want := `job "j": step 3 "get" (sftp.download), iteration 2.0, attempt 4: no route`; err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	x.State = courier.Cancelled
	if !errors.Is(x.Err(), courier.ErrCancelled) {
		t.Errorf("cancelled: %v", x.Err())
	}
	x.State = courier.Completed
	if x.Err() != nil {
		t.Errorf("completed: %v", x.Err())
	}
}

func TestPermanent(t *testing.T) {
	base := errors.New("bad key")
	err := errors.Join(errors.New("x"), courier.Permanent(base))
	if !courier.IsPermanent(err) || !errors.Is(err, base) || courier.IsPermanent(base) || courier.Permanent(nil) != nil {
		t.Errorf("Permanent does not mark, or marks too much")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"remote_path", "local_path", "connection_id"}
	for in, want := range map[string]string{
		"remote_pth": "remote_path", "Remote_Path": "remote_path", "conection_id": "connection_id",
		"lcoal_path": "local_path", "zzz": "", strings.Repeat("a", 1000): "",
	} {
		if got := nearest.Name(in, names); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestDefinitionErrorIsShort(t *testing.T) {
	err := &courier.DefinitionError{Job: "j"}
	for i := range 100_000 {
		err.Problems = append(err.Problems, courier.Problem{Step: i, Type: "x.y", Field: "config", Message: "bad"})
	}
	s := err.Error()
	if len(s) > 4000 || !strings.Contains(s, "100000 problems (nothing was saved):") || !strings.Contains(s, "and 99980 more") || !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("got %d bytes: %.300s", len(s), s)
	}
}

func TestProblemBeginsWithItsPlace(t *testing.T) {
	for want, p := range map[string]courier.Problem{
		"bad":                         {Step: -1, Message: "bad"},
		"f.json: name: bad":           {Step: -1, File: "f.json", Field: "name", Message: "bad"},
		"f.json:1:2: name: bad":       {Step: -1, File: "f.json", Line: 1, Column: 2, Field: "name", Message: "bad"},
		"line 1, column 2: name: bad": {Step: -1, Line: 1, Column: 2, Field: "name", Message: "bad"},
		`step 0 "a" (x.y): x: bad`:    {ID: "a", Type: "x.y", Field: "x", Message: "bad"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRecordsInJSON(t *testing.T) {
	step := 2
	x := courier.Execution{ID: "id", Job: "j", State: courier.Queued, Timeout: 1500 * time.Millisecond, LimitKeys: []string{"k"}}
	a := courier.AuditEntry{Execution: "id", Seq: 3, Step: &step, ExecutionAttempt: 1, From: "pending", To: "running", Elapsed: 250 * time.Millisecond}
	for want, v := range map[string]any{`"timeout_seconds":1.5`: x, `"elapsed_seconds":0.25`: a} {
		if got, err := json.Marshal(v); err != nil || !strings.Contains(string(got), want) || strings.Contains(string(got), "1500000000") {
			t.Errorf("%s, %v, want %s in it", got, err, want)
		}
	}
	var again courier.Execution
	b, _ := json.Marshal(x)
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, x) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	for a.ExecutionAttempt = range 3 {
		var entry courier.AuditEntry
		b, _ = json.Marshal(a)
		if strings.Contains(string(b), "execution_attempt") != (a.ExecutionAttempt == 2) {
			t.Errorf("attempt %d of the execution: %s", a.ExecutionAttempt, b)
		}
		a.ExecutionAttempt = max(1, a.ExecutionAttempt)
		if err := json.Unmarshal(b, &entry); err != nil || !reflect.DeepEqual(entry, a) {
			t.Errorf("read again: %+v, %v", entry, err)
		}
	}
}

// TestIterationIndexInJSON checks the field iteration_index of all that is about a step:
// a number in loops, null outside, and absent from what is about an execution.
func TestIterationIndexInJSON(t *testing.T) {
	step := 2
	in := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		if index, ok := fields["iteration_index"]; ok {
			return string(index)
		}
		return "absent"
	}
	for _, tt := range []struct {
		step      *int
		iteration []int
		want      string
	}{{&step, []int{4, 0}, "0"}, {&step, []int{17}, "17"}, {&step, nil, "null"}, {nil, nil, "absent"}} {
		list := []any{courier.AuditEntry{Step: tt.step, Iteration: tt.iteration}}
		if tt.step != nil {
			list = append(list, courier.StepExecution{Step: step, Iteration: tt.iteration},
				courier.Execution{Current: &courier.StepExecution{Step: step, Iteration: tt.iteration}}.Current)
		}
		for _, v := range list {
			if got := in(v); got != tt.want {
				t.Errorf("%T, iteration %v: iteration_index is %s, want %s", v, tt.iteration, got, tt.want)
			}
		}
	}
}
