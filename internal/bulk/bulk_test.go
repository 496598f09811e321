package bulk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/bulk"
	"github.com/courierhq/courier/internal/filter"
)

// A service has executions, the newest first, and does with them what it is asked for.
type service struct {
	list   []courier.Execution
	before func(id courier.ExecutionID) error // is called before each action
	did    []string                           // the actions with their executions
	reruns []engine.RerunOptions
}

// id is the id of the nth execution.
func id(n int) courier.ExecutionID {
	return courier.ExecutionID(fmt.Sprintf("01930000-0000-7000-8000-%012x", n))
}

// many returns a service with n executions in a state.
func many(n int, state courier.State) *service {
	s := &service{}
	for i := n; i > 0; i-- {
		s.list = append(s.list, courier.Execution{ID: id(i), Job: "j", State: state})
	}
	return s
}

// find is the Find of a caller, which reads a page of as many executions as a page has.
func (s *service) find(_ context.Context, w *filter.Filter, before courier.ExecutionID, limit int) (list []courier.Execution, next courier.ExecutionID, err error) {
	for i := range s.list {
		x := s.list[i]
		if before != "" && x.ID >= before || !w.Selects(&x, time.Now()) {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		list = append(list, x)
	}
	return list, "", nil
}

func (s *service) act(action string, id courier.ExecutionID, to courier.State) (courier.Execution, error) {
	if s.before != nil {
		if err := s.before(id); err != nil {
			return courier.Execution{}, err
		}
	}
	i := slices.IndexFunc(s.list, func(x courier.Execution) bool { return x.ID == id })
	if i < 0 {
		return courier.Execution{}, courier.Errorf(courier.ErrNotFound, "there is no execution %s", id)
	}
	s.list[i].State = to
	s.did = append(s.did, action+" "+string(id))
	return s.list[i], nil
}

func (s *service) Resume(_ context.Context, id courier.ExecutionID, _ *courier.ResumeOptions) (courier.Execution, error) {
	return s.act("resume", id, courier.Queued)
}

func (s *service) Cancel(_ context.Context, id courier.ExecutionID, _ *courier.CancelOptions) (courier.Execution, error) {
	return s.act("cancel", id, courier.Cancelled)
}

func (s *service) Pause(_ context.Context, id courier.ExecutionID, _ courier.By) (courier.Execution, error) {
	return s.act("pause", id, courier.Paused)
}

func (s *service) Release(_ context.Context, id courier.ExecutionID, _ courier.By) (courier.Execution, error) {
	return s.act("release", id, courier.Queued)
}

func (s *service) Rerun(_ context.Context, id courier.ExecutionID, opt *engine.RerunOptions) (courier.Execution, error) {
	s.reruns = append(s.reruns, *opt)
	_, err := s.act("rerun", id, courier.Completed)
	return courier.Execution{ID: "new of " + id}, err
}

// do carries out a request for a caller who may treat everything.
func (s *service) do(t *testing.T, r bulk.Request) (bulk.Outcome, error) {
	t.Helper()
	return bulk.Do(t.Context(), s, bulk.Caller{ID: "ann", Find: s.find}, r)
}

func where(t *testing.T, text string) filter.Filter {
	t.Helper()
	f, err := filter.Parse(text, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A request goes on where its cursor says, from the newest execution down: what is created after
// its first call is not in it, nor what is created after a dry run that it begins with.
func TestPages(t *testing.T) {
	s := many(1200, courier.Failed)
	r := bulk.Request{Action: bulk.Resume, Where: where(t, "job:j"), DryRun: true}
	dry, err := s.do(t, r)
	if err != nil || dry.Matched != 1200 || dry.More || len(dry.Sample) != 10 || len(dry.Results) != 0 || len(s.did) != 0 || dry.Text != "Bulk resume: it would treat 1200 executions. Nothing was done." {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	later := func(n int) {
		s.list = slices.Insert(s.list, 0, courier.Execution{ID: id(n), Job: "j", State: courier.Failed})
	}
	later(5000)
	r.DryRun, r.Cursor = false, dry.Next
	for page, want := range []int{500, 500, 200} {
		out, err := s.do(t, r)
		if err != nil || out.Done != want || len(out.Results) != want || out.Results[0].Execution != id(1200-500*page) || out.More != (page < 2) || (out.Next == "") != (page == 2) {
			t.Errorf("page %d: %+v, %v", page, out.Text, err)
		}
		r.Cursor = out.Next
		later(5001 + page)
	}
	if slices.Contains(s.did, "resume "+string(id(5000))) || len(s.did) != 1200 {
		t.Errorf("%d were treated", len(s.did))
	}
	counted, err := many(10_400, courier.Failed).do(t, bulk.Request{Action: bulk.Resume, Where: where(t, "job:j"), DryRun: true})
	if err != nil || counted.Matched != 10_000 || !counted.More || !strings.Contains(counted.Text, "10000 or more executions") {
		t.Errorf("of more than are counted: %+v, %v", counted, err)
	}
}

// If the context ends, or the store fails, the call stops between two executions, and the cursor
// goes on with the one that was not treated.
func TestStops(t *testing.T) {
	s := many(10, courier.Created)
	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(x courier.ExecutionID) error {
		if x == id(8) {
			cancel()
		}
		return nil
	}
	r := bulk.Request{Action: bulk.Release, Where: where(t, "job:j")}
	who := bulk.Caller{Find: s.find}
	out, err := bulk.Do(ctx, s, who, r)
	if !errors.Is(err, context.Canceled) || out.Done != 3 || out.Next == "" || !strings.Contains(err.Error(), "bulk release: stopped before execution "+string(id(7))+", after 3 of 10") {
		t.Fatalf("%+v, %v", out, err)
	}
	down := errors.New("the server is down")
	s.before = func(x courier.ExecutionID) error {
		if x == id(5) {
			return down
		}
		return nil
	}
	r.Cursor = out.Next
	if out, err = s.do(t, r); !errors.Is(err, down) || out.Done != 2 || out.Results[0].Execution != id(7) || !out.More {
		t.Fatalf("%+v, %v", out, err)
	}
	s.before, r.Cursor = nil, out.Next
	if out, err = s.do(t, r); err != nil || out.Done != 5 || out.Next != "" {
		t.Fatalf("%+v, %v", out, err)
	}
	who.Find = func(context.Context, *filter.Filter, courier.ExecutionID, int) ([]courier.Execution, courier.ExecutionID, error) {
		return nil, "", down
	}
	for _, r.DryRun = range []bool{false, true} {
		if out, err := bulk.Do(t.Context(), s, who, r); !errors.Is(err, down) || !strings.HasPrefix(err.Error(), "bulk release: ") || len(out.Results) != 0 {
			t.Errorf("nothing is found: %+v, %v", out, err)
		}
	}
}

// What the engine refuses is told of each execution. One whose state has changed since it was
// selected, or that was removed, is skipped; one that is given by its id is refused.
func TestResults(t *testing.T) {
	moved := &courier.TransitionError{From: courier.Cancelled, To: courier.Queued}
	same := &courier.TransitionError{From: courier.Failed, To: courier.Queued}
	for _, c := range []struct {
		err           error
		where, byID   string
		wantsNoResult bool
	}{
		{err: nil, where: bulk.Done, byID: bulk.Done},
		{err: moved, where: bulk.Skipped, byID: bulk.Refused},
		{err: same, where: bulk.Refused, byID: bulk.Refused},
		{err: courier.Errorf(courier.ErrNotFound, "it is gone"), where: bulk.Skipped, byID: bulk.Refused},
		{err: courier.Errorf(courier.ErrInvalid, "no"), where: bulk.Refused, byID: bulk.Refused},
		{err: courier.Errorf(courier.ErrConflict, "no"), where: bulk.Refused, byID: bulk.Refused},
		{err: &courier.DependencyError{}, where: bulk.Refused, byID: bulk.Refused},
		{err: errors.New("the server is down"), wantsNoResult: true},
	} {
		for want, r := range map[string]bulk.Request{
			"where " + c.where: {Where: where(t, "job:j")},
			"byID " + c.byID:   {IDs: []courier.ExecutionID{id(1), id(1)}},
		} {
			s := many(1, courier.Failed)
			s.before = func(courier.ExecutionID) error { return c.err }
			r.Action = bulk.Resume
			out, err := s.do(t, r)
			if c.wantsNoResult {
				if !errors.Is(err, c.err) || len(out.Results) != 0 {
					t.Errorf("%v: %+v, %v", c.err, out, err)
				}
				continue
			}
			_, want, _ := strings.Cut(want, " ")
			if err != nil || len(out.Results) != 1 || out.Results[0].Result != want || (out.Results[0].Error == "") != (c.err == nil) || out.Done+out.Refused+out.Skipped != 1 {
				t.Errorf("%v: %+v, %v; want %s", c.err, out, err, want)
			}
		}
	}
}

// Executions that are given by their ids are treated from the newest down, once each, as far as
// the caller may.
func TestIDs(t *testing.T) {
	s := many(3, courier.Queued)
	unknown := courier.Errorf(courier.ErrNotFound, "there is no such thing here")
	who := bulk.Caller{Find: s.find, May: func(_ context.Context, x courier.ExecutionID) error {
		if x == id(2) {
			return unknown
		}
		return nil
	}}
	r := bulk.Request{Action: bulk.Cancel, IDs: []courier.ExecutionID{id(1), id(2), id(9), id(3), id(1)}}
	out, err := bulk.Do(t.Context(), s, who, r)
	var got []string
	for _, x := range out.Results {
		got = append(got, string(x.Execution[35:])+" "+x.Result)
	}
	if want := []string{"9 refused", "3 done", "2 refused", "1 done"}; err != nil || !slices.Equal(got, want) || out.Results[2].Error != unknown.Error() {
		t.Errorf("%q, %v", got, err)
	}
	down := errors.New("the server is down")
	who.May = func(context.Context, courier.ExecutionID) error { return down }
	if _, err := bulk.Do(t.Context(), s, who, r); !errors.Is(err, down) {
		t.Errorf("of a store that fails: %v", err)
	}
	r.IDs = nil
	for n := range 700 {
		r.IDs = append(r.IDs, id(n))
	}
	who.May = nil
	first, err := bulk.Do(t.Context(), s, who, r)
	if r.Cursor = first.Next; err != nil || len(first.Results) != 500 || r.Cursor == "" {
		t.Fatalf("%d of many, %v", len(first.Results), err)
	}
	if second, err := bulk.Do(t.Context(), s, who, r); err != nil || len(second.Results) != 200 || second.Next != "" {
		t.Errorf("%d of the rest, %v", len(second.Results), err)
	}
}

// Without states in the filter, an action takes those in which it is possible.
func TestPossibleStates(t *testing.T) {
	s := &service{}
	for i, state := range []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Failed, courier.Completed, courier.Cancelled} {
		s.list = slices.Insert(s.list, 0, courier.Execution{ID: id(i), Job: "j", State: state})
	}
	for action, want := range map[bulk.Action]string{
		bulk.Resume: "failed paused", bulk.Pause: "running queued", bulk.Release: "created",
		bulk.Cancel: "failed paused running queued created", bulk.Rerun: "cancelled completed failed",
	} {
		out, err := s.do(t, bulk.Request{Action: action, Where: where(t, "job:j"), DryRun: true})
		var got []string
		for _, x := range s.list {
			if slices.Contains(out.Sample, x.ID) {
				got = append(got, string(x.State))
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %v, want %s; %v", action, got, want, err)
		}
	}
}

// A rerun has the key, the labels and the limits of its caller.
func TestRerun(t *testing.T) {
	s := many(1, courier.Failed)
	who := bulk.Caller{ID: "ann/x", Labels: map[string]string{"by": "ann"}, Find: s.find, Charge: func(_ context.Context, x *courier.Execution) ([]string, error) {
		return []string{"user:ann/" + x.Job}, nil
	}}
	r := bulk.Request{Action: bulk.Rerun, Where: where(t, "job:j"), By: courier.By{Actor: "ann", Reason: "lost"}, Key: "k"}
	out, err := bulk.Do(t.Context(), s, who, r)
	if err != nil || out.Done != 1 || out.Results[0].Started != "new of "+id(1) {
		t.Fatalf("%+v, %v", out, err)
	}
	if o := s.reruns[0]; o.IdempotencyKey != "bulk/ann%2Fx/k/"+string(id(1)) || o.Labels["by"] != "ann" || !slices.Equal(o.LimitKeys, []string{"user:ann/j"}) || o.By != r.By {
		t.Errorf("%+v", o)
	}
	s = many(2, courier.Failed)
	who.Find = s.find
	who.Charge = func(_ context.Context, x *courier.Execution) ([]string, error) {
		if x.ID == id(2) {
			return nil, courier.Errorf(courier.ErrConflict, "you have too many")
		}
		return nil, nil
	}
	if out, err := bulk.Do(t.Context(), s, who, r); err != nil || out.Refused != 1 || out.Done != 1 || out.Results[0].Error != "you have too many" || out.Results[0].Started != "" || len(s.reruns) != 1 {
		t.Errorf("of too many: %+v, %v", out, err)
	}
}

// Requests that can't be meant are refused with all that is wrong, and do nothing.
func TestMistakes(t *testing.T) {
	s := many(1, courier.Queued)
	ids, at := []courier.ExecutionID{id(1)}, time.Unix(1, 0)
	for want, r := range map[string]bulk.Request{
		`there is no action "resum"; did you mean "resume"?`: {Action: "resum", IDs: ids},
		"it says of nothing what it is about":                {Action: bulk.Cancel},
		"give ids or a filter, not both":                     {Action: bulk.Cancel, IDs: ids, Where: where(t, "job:j")},
		`"x" is not the id of an execution`:                  {Action: bulk.Cancel, IDs: []courier.ExecutionID{"x"}},
		"10001 ids, 10000 at most":                           {Action: bulk.Cancel, IDs: slices.Repeat(ids, 10_001)},
		"a resume is not possible in state:completed":        {Action: bulk.Resume, Where: where(t, "state:completed")},
		"a release is not possible in state:failed":          {Action: bulk.Release, Where: where(t, "ended:1h")},
		"a rerun needs a key":                                {Action: bulk.Rerun, IDs: ids},
		"a key of 1 to 100 characters":                       {Action: bulk.Rerun, IDs: ids, Key: strings.Repeat("k", 101)},
		"since is not before until":                          {Action: bulk.Cancel, Where: filter.Filter{Since: at, Until: at}},
		"not a valid cursor; start":                          {Action: bulk.Cancel, IDs: ids, Cursor: "x"},
		"it says of nothing what it is about: give ids or a filter, such as state:failed; a rerun needs": {Action: bulk.Rerun},
	} {
		out, err := s.do(t, r)
		if !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), want) || len(out.Results) > 0 {
			t.Errorf("%+v: %v, want %s", r, err, want)
		}
	}
	page, err := s.do(t, bulk.Request{Action: bulk.Cancel, Where: where(t, "job:j"), DryRun: true})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	if _, err := s.do(t, bulk.Request{Action: bulk.Pause, Where: where(t, "job:j"), Cursor: page.Next}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("with the cursor of another action: %v", err)
	}
	none, err := s.do(t, bulk.Request{Action: bulk.Resume, Where: where(t, "job:j")})
	if err != nil || none.Text != "Bulk resume: no execution is selected, nothing was done." || none.Next != "" || len(s.did) != 0 {
		t.Errorf("of nothing: %+v, %v; %v", none, err, s.did)
	}
}
