package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/history"
	"github.com/courierhq/courier/store"
)

// records are the steps of an execution in pages of two.
type records struct {
	store.Archive
	list []courier.StepExecution
	fail int // the number of the call that fails
	n    int
}

func (r *records) Steps(_ context.Context, f store.StepFilter) ([]courier.StepExecution, error) {
	if r.n++; r.n == r.fail {
		return nil, errors.New("out of reach")
	}
	var page []courier.StepExecution
	for _, s := range r.list {
		if s.Seq > f.After && len(page) < 2 && f.Execution == "x" {
			page = append(page, s)
		}
	}
	return page, nil
}

// TestEach: all pages are read in order, up to an error of the store.
func TestEach(t *testing.T) {
	list := []courier.StepExecution{{Seq: 2, Step: 0}, {Seq: 5, Step: 1}, {Seq: 6, Step: 2}, {Seq: 9, Step: 3}, {Seq: 11, Step: 4}}
	for _, c := range []struct {
		fail int
		want string
	}{{0, "[0 1 2 3 4] <nil>"}, {1, "[] out of reach"}, {2, "[0 1] out of reach"}} {
		var got []int
		err := history.Each(t.Context(), &records{list: list, fail: c.fail}, "x", func(s *courier.StepExecution) { got = append(got, s.Step) })
		if s := fmt.Sprint(got, err); s != c.want {
			t.Errorf("%s, want %s", s, c.want)
		}
	}
}

// TestFirstFailure: the last failed step of the first attempt of the job is meant, whatever a later
// attempt did and which steps were skipped.
func TestFirstFailure(t *testing.T) {
	rec := func(seq int64, attempt int, state courier.StepState) courier.StepExecution {
		return courier.StepExecution{Seq: seq, ExecutionAttempt: attempt, State: state}
	}
	for name, c := range map[string]struct {
		list []courier.StepExecution
		want int64
	}{
		"none":       {[]courier.StepExecution{rec(1, 1, courier.StepCompleted), rec(2, 1, courier.StepSkipped)}, 0},
		"retried":    {[]courier.StepExecution{rec(1, 1, courier.StepFailed), rec(2, 1, courier.StepFailed), rec(3, 1, courier.StepCompleted)}, 2},
		"later too":  {[]courier.StepExecution{rec(1, 1, courier.StepFailed), rec(2, 2, courier.StepFailed)}, 1},
		"only later": {[]courier.StepExecution{rec(1, 1, courier.StepCompleted), rec(2, 2, courier.StepFailed)}, 0},
	} {
		first, err := history.FirstFailure(t.Context(), &records{list: c.list}, "x")
		if err != nil || (first == nil) != (c.want == 0) || first != nil && first.Seq != c.want {
			t.Errorf("%s: %+v, %v", name, first, err)
		}
	}
}

// TestFailed: a record counts that is of the step in the iteration and did not complete it.
func TestFailed(t *testing.T) {
	latest := []courier.StepExecution{
		{Seq: 1, Step: 1, Iteration: []int{0}, State: courier.StepFailed}, {Seq: 2, Step: 1, Iteration: []int{1}, State: courier.StepCompleted},
		{Seq: 3, Step: 2, State: courier.StepSkipped}, {Seq: 4, Step: 1, Iteration: []int{1, 0}, State: courier.StepFailed},
	}
	for _, c := range []struct {
		step int
		at   []int
		want int64
	}{{1, []int{0}, 1}, {1, []int{1}, 0}, {1, nil, 0}, {2, nil, 3}, {2, []int{}, 3}, {1, []int{1, 0}, 4}, {9, nil, 0}} {
		got := history.Failed(latest, c.step, c.at)
		if (got == nil) != (c.want == 0) || got != nil && got.Seq != c.want {
			t.Errorf("step %d in %v: %+v", c.step, c.at, got)
		}
	}
	if a, b := history.Place(1, []int{2, 3}), history.Place(12, []int{3}); a == b || history.Place(1, nil) == history.Place(1, []int{0}) {
		t.Errorf("%q and %q are one place", a, b)
	}
}

// TestMissingFailure: twenty files are named at most, and the list of the caller stays as it is.
func TestMissingFailure(t *testing.T) {
	list := make([]string, 25)
	for i := range list {
		list[i] = fmt.Sprint("f", i)
	}
	for n, end := range map[int]string{1: ": f0", 20: ", f19", 21: ", f19, and 1 more", 25: ", f19, and 5 more"} {
		f := history.MissingFailure(list[:n])
		if f.Step != -1 || f.Reason != courier.ReasonFiles || !strings.HasSuffix(f.Message, end) {
			t.Errorf("%d files: %+v", n, f)
		}
	}
	if list[20] != "f20" {
		t.Error("the list has changed")
	}
}
