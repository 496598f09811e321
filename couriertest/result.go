package couriertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"

	"github.com/courierhq/courier"
)

// A Result is an execution at its end, with all its records. Its assertions fail the test
// at once and return the result, so that they can be chained.
type Result struct {
	courier.Execution
	Err    error // of the execution; nil if it completed
	Steps  []courier.StepExecution
	Audit  []courier.AuditEntry
	Values map[string]any // by "0.name", and by "id.name" for steps with an id

	t testing.TB
}

// RequireState asserts the execution's state.
func (r *Result) RequireState(want courier.State) *Result {
	r.t.Helper()
	if r.State != want {
		r.t.Fatalf("the execution is %s, want %s\nerror: %v\nsteps:\n  %s", r.State, want, r.Err, strings.Join(r.Trace(), "\n  "))
	}
	return r
}

// RequireValue asserts a value by its key, such as "0.file_count". Values are
// compared by their JSON form.
func (r *Result) RequireValue(key string, want any) *Result {
	r.t.Helper()
	ref, err := reference.Parse(key)
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := ref.Resolve(courier.Values(r.Values))
	if err != nil {
		r.t.Fatalf("value %v\nvalues are: %s", err, strings.Join(slices.Sorted(maps.Keys(r.Values)), ", "))
	}
	if g, w := normal(r.t, got), normal(r.t, want); !reflect.DeepEqual(g, w) {
		r.t.Fatalf("value %s = %s, want %s", key, text(got), text(want))
	}
	return r
}

// RequireNoValue asserts that there is no value under key.
func (r *Result) RequireNoValue(key string) *Result {
	r.t.Helper()
	if v, ok := r.Values[key]; ok {
		r.t.Fatalf("value %s = %s, want none", key, text(v))
	}
	return r
}

// RequireError asserts that the execution did not complete, and that its error
// contains a text.
func (r *Result) RequireError(part string) *Result {
	r.t.Helper()
	if r.Err == nil || !strings.Contains(r.Err.Error(), part) {
		r.t.Fatalf("the execution's error is %v, want one with %q", r.Err, part)
	}
	return r
}

// RequireTrace asserts all recorded attempts of steps, in order, each in the
// form of [Result.Trace].
func (r *Result) RequireTrace(want ...string) *Result {
	r.t.Helper()
	if got := r.Trace(); !slices.Equal(got, want) {
		r.t.Fatalf("steps:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	return r
}

// Trace returns a line for each recorded attempt of a step, in the order in which the attempts
// ended: "2 sftp.download[0] completed", with the iteration in brackets, and "#2" after it for a
// second attempt.
func (r *Result) Trace() []string {
	lines := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		line := fmt.Sprintf("%d %s", s.Step, s.Type)
		if it := courier.FormatIteration(s.Iteration); it != "" {
			line += "[" + it + "]"
		}
		if s.Attempt > 1 {
			line += fmt.Sprintf("#%d", s.Attempt)
		}
		lines[i] = line + " " + string(s.State)
	}
	return lines
}

// normal returns a value as JSON encoding and decoding leave it.
func normal(t testing.TB, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	x, err := jsontext.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func text(v any) string {
	b, err := jsontext.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
