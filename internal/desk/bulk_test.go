package desk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A watched is a memory store that calls a function before each request.
type watched struct {
	*memstore.Store
	before func(r store.Request) error
}

func (s *watched) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	if s.before != nil {
		if err := s.before(r); err != nil {
			return courier.Execution{}, err
		}
	}
	return s.Store.Request(ctx, r)
}

// watch puts a watched store between the desk and its store.
func (w *world) watch() *watched {
	s := &watched{Store: w.Store}
	w.desk = desk.New(engine.New(s, nil, nil), nil)
	return s
}

// What is selected for a name in quotes has that name, whatever the name has in it; only an
// asterisk outside of quotes stands for the rest of a name. That holds for who sees all jobs, and
// for who sees some.
func TestQuotedNamesAreLiteral(t *testing.T) {
	in(t, func(w *world) {
		of := make(map[string]courier.ExecutionID)
		for _, job := range []string{"ab", "ab*", "abc", "ab*d", `a"b`, "a,b", "a:b c"} {
			w.define(courier.Job{Name: job, Steps: []courier.StepSpec{{Type: "demo.a"}}})
			of[job] = w.add(job, courier.EnqueueOptions{})
		}
		w.desk = desk.New(w.Engine, &desk.Options{Access: access.Policy{Role: func(_ context.Context, p access.Principal, job string) access.Role {
			if job == "" && p.ID == "ben" {
				return access.None
			}
			return access.Admin
		}}})
		all, some := w.desk.Visitor(access.Principal{ID: "ann"}), w.desk.Visitor(access.Principal{ID: "ben"})
		for text, want := range map[string][]string{
			`job:"ab*"`: {"ab*"}, "job:ab*": {"ab", "ab*", "ab*d", "abc"}, `job:"ab*"*`: {"ab*", "ab*d"}, `job:ab job:"ab*"`: {"ab", "ab*"}, "job:ab": {"ab"},
			filter.Filter{Jobs: []string{"ab*"}}.String(): {"ab*"}, filter.Filter{Jobs: []string{`a"b`, "a,b"}}.String(): {`a"b`, "a,b"}, `job:"a:b c"`: {"a:b c"},
		} {
			var ids []courier.ExecutionID
			for _, job := range want {
				ids = append(ids, of[job])
			}
			same := func(what string, got []courier.ExecutionID) {
				slices.Sort(got)
				if slices.Sort(ids); !slices.Equal(got, ids) {
					t.Errorf("%s: %s selects %d executions, and not those of %q", text, what, len(got), want)
				}
			}
			for who, v := range map[string]*desk.Visit{"all": all, "some": some} {
				p, err := v.Executions(t.Context(), w.where(text), "", 0)
				w.ok(err)
				var got []courier.ExecutionID
				for i := range p.Items {
					got = append(got, p.Items[i].ID)
				}
				same("a list for who sees "+who, got)
				out, err := v.Bulk(t.Context(), desk.Bulk{Action: desk.Cancel, Where: w.where(text), DryRun: true})
				w.ok(err)
				same("a bulk action of who sees "+who, out.Sample)
			}
		}
		out, err := all.Bulk(t.Context(), desk.Bulk{Action: desk.Cancel, Where: w.where(`job:"ab*"`)})
		if err != nil || out.Done != 1 || w.state(of["abc"]) != courier.Queued || w.state(of["ab*"]) != courier.Cancelled {
			t.Errorf("%+v, %v; abc is %s", out, err, w.state(of["abc"]))
		}
	})
}

// TestBulkOfAStorm resumes 1,500 failed executions. One changes its state meanwhile, and
// others fail meanwhile that were created after the first page was read.
func TestBulkOfAStorm(t *testing.T) {
	in(t, func(w *world) {
		storm := w.many(1500, "other", courier.EnqueueOptions{})
		w.end(courier.Failed, courier.ReasonConnection, storm...)
		paused := w.add("other", courier.EnqueueOptions{})
		_, err := w.Engine.Pause(w.Context(), paused, courier.By{})
		w.ok(err)
		b := desk.Bulk{Action: desk.Resume, Where: w.where("state:failed job:other"), By: courier.By{Actor: "ann", Reason: "the server is back"}}

		b.DryRun = true
		dry, err := w.desk.Bulk(w.Context(), b)
		w.ok(err)
		if dry.Matched != 1500 || dry.More || len(dry.Sample) != 10 || len(dry.Results) != 0 || dry.Next == "" || w.state(storm[0]) != courier.Failed {
			t.Errorf("dry run: %+v", dry)
		}
		late := w.add("other", courier.EnqueueOptions{})
		w.end(courier.Failed, courier.ReasonConnection, late)

		s := w.watch()
		var later []courier.ExecutionID
		s.before = func(r store.Request) error {
			if r.Execution == storm[1499] { // the first of the first page
				later = w.many(3, "other", courier.EnqueueOptions{})
				w.end(courier.Failed, courier.ReasonConnection, later...)
				_, err := w.Engine.Cancel(w.Context(), storm[1400], courier.By{})
				w.ok(err)
			}
			return nil
		}
		b.DryRun, b.Cursor = false, dry.Next
		done := 0
		for page := range 4 {
			out, err := w.desk.Bulk(w.Context(), b)
			w.ok(err)
			done += out.Done
			if page < 2 && (out.Matched != 500 || len(out.Results) != 500) {
				t.Errorf("page %d: %d matched, %d results", page, out.Matched, len(out.Results))
			}
			if skipped := withResult(out.Results, desk.Skipped); page == 0 && !slices.Equal(skipped, []courier.ExecutionID{storm[1400]}) || out.Refused > 0 || page > 0 && len(skipped) > 0 {
				t.Errorf("page %d: skipped %v, refused %d", page, skipped, out.Refused)
			}
			if page == 0 {
				again, err := w.desk.Bulk(w.Context(), b) // as if the answer was lost
				if err != nil || again.Done > 500 {
					t.Errorf("repeated: %d done, %v", again.Done, err)
				}
				done += again.Done
			}
			if b.Cursor = out.Next; b.Cursor == "" {
				break
			}
		}
		// The repetition has treated the next 500, because the first ones are failed no more.
		if b.Cursor != "" || done != 1499 {
			t.Errorf("%d done, next %q", done, b.Cursor)
		}
		for _, id := range append(later, late) {
			if got := w.state(id); got != courier.Failed {
				t.Errorf("one that came meanwhile is %s", got)
			}
		}
		if w.state(paused) != courier.Paused || w.state(storm[0]) != courier.Queued || w.state(storm[1499]) != courier.Queued {
			t.Error("not the failed ones were resumed")
		}
		audit, err := w.Engine.Executions().Audit(w.Context(), storm[7])
		w.ok(err)
		if last := audit[len(audit)-1]; last.By != "ann" || last.Error != "the server is back" {
			t.Errorf("audit: %+v", last)
		}
	})
}

// TestBulkStops ends the context, and then has the store fail, between two executions. The
// cursor goes on with the one that was not treated.
func TestBulkStops(t *testing.T) {
	in(t, func(w *world) {
		ids := w.many(10, "other", courier.EnqueueOptions{Hold: true})
		s := w.watch()
		ctx, cancel := context.WithCancel(w.Context())
		s.before = func(r store.Request) error {
			if r.Execution == ids[6] {
				cancel()
			}
			return nil
		}
		b := desk.Bulk{Action: desk.Release, Where: w.where("job:other")}
		out, err := w.desk.Bulk(ctx, b)
		if !errors.Is(err, context.Canceled) || out.Done != 3 || out.Next == "" || !strings.Contains(err.Error(), "after 3 of 10") {
			t.Fatalf("%+v, %v", out, err)
		}
		down := errors.New("the server is down")
		s.before = func(r store.Request) error {
			if r.Execution == ids[4] {
				return down
			}
			return nil
		}
		b.Cursor = out.Next
		if out, err = w.desk.Bulk(w.Context(), b); !errors.Is(err, down) || out.Done != 2 || out.Results[0].Execution != ids[6] {
			t.Fatalf("%+v, %v", out, err)
		}
		s.before = nil
		b.Cursor = out.Next
		if out, err = w.desk.Bulk(w.Context(), b); err != nil || out.Done != 5 || out.Next != "" {
			t.Fatalf("%+v, %v", out, err)
		}
		for i, id := range ids {
			if got := w.state(id); got != courier.Queued {
				t.Errorf("execution %d is %s", i, got)
			}
		}
	})
}

// TestBulkRerun starts executions again, once however often it is repeated.
func TestBulkRerun(t *testing.T) {
	in(t, func(w *world) {
		ids := w.many(3, "other", courier.EnqueueOptions{Params: map[string]any{"day": "1"}})
		w.end(courier.Completed, "", ids...)
		w.add("other", courier.EnqueueOptions{})
		b := desk.Bulk{Action: desk.Rerun, Where: w.where("job:other"), By: courier.By{Actor: "ann", Reason: "the partner has lost them"}, Key: "k"}
		first, err := desk.New(w.Engine, nil).Bulk(w.Context(), b)
		w.ok(err)
		second, err := w.desk.Bulk(w.Context(), b)
		w.ok(err)
		b.Key = "another"
		third, err := w.desk.Bulk(w.Context(), b)
		w.ok(err)
		if first.Done != 3 || second.Done != 3 || third.Done != 3 {
			t.Fatalf("%+v\n%+v", first, second)
		}
		for i, r := range first.Results {
			if !strings.Contains(w.Log(), fmt.Sprintf("msg=\"execution started again\" execution=%s by.actor=ann by.reason=\"the partner has lost them\" job=other", r.Started)) {
				t.Errorf("the reason is not in the log: %s", w.Log())
			}
			if r.Started == "" || r.Started != second.Results[i].Started || r.Started == third.Results[i].Started {
				t.Errorf("%s: started %s and %s; with another key %s", r.Execution, r.Started, second.Results[i].Started, third.Results[i].Started)
			}
			x, err := w.Engine.Executions().Get(w.Context(), r.Started)
			if err != nil || x.By != "ann" || x.RerunOf != r.Execution || string(x.Params) != `{"day":"1"}` {
				t.Errorf("%+v, %v", x, err)
			}
		}
	})
}

// TestBulkByIDs says of each execution what came of it.
func TestBulkByIDs(t *testing.T) {
	in(t, func(w *world) {
		const nobody = courier.ExecutionID("00000000-0000-7000-8000-000000000000")
		queued, completed := w.add("other", courier.EnqueueOptions{}), w.add("other", courier.EnqueueOptions{})
		w.end(courier.Completed, "", completed)
		for _, dry := range []bool{true, false} {
			out, err := w.desk.Bulk(w.Context(), desk.Bulk{Action: desk.Cancel, IDs: []courier.ExecutionID{nobody, queued, completed, queued}, DryRun: dry})
			w.ok(err)
			if dry {
				if out.Matched != 3 || w.state(queued) != courier.Queued {
					t.Errorf("dry run: %+v", out)
				}
				continue
			}
			refused := withResult(out.Results, desk.Refused)
			if out.Done != 1 || !slices.Equal(refused, []courier.ExecutionID{nobody, completed}) || w.state(queued) != courier.Cancelled {
				t.Errorf("%+v", out)
			}
			for _, r := range out.Results {
				if (r.Result == desk.Refused) != (r.Error != "") {
					t.Errorf("%+v", r)
				}
			}
		}
	})
}

// TestBulkTakesWhatItCan selects, without states in the filter, those for which the action
// is possible.
func TestBulkTakesWhatItCan(t *testing.T) {
	in(t, func(w *world) {
		states := make(map[string]courier.ExecutionID)
		for _, name := range []string{"created", "queued", "running", "paused", "failed", "completed", "cancelled"} {
			id := w.add("other", courier.EnqueueOptions{Hold: name == "created"})
			states[name] = id
			switch name {
			case "running":
				w.claim(100*time.Hour, id)
			case "failed", "completed":
				w.end(courier.State(name), courier.ReasonError, id)
			case "paused":
				_, err := w.Engine.Pause(w.Context(), id, courier.By{})
				w.ok(err)
			case "cancelled":
				_, err := w.Engine.Cancel(w.Context(), id, courier.By{})
				w.ok(err)
			}
		}
		for action, want := range map[desk.Action][]string{
			desk.Resume: {"paused", "failed"}, desk.Pause: {"queued", "running"}, desk.Release: {"created"},
			desk.Cancel: {"created", "queued", "running", "paused", "failed"}, desk.Rerun: {"failed", "completed", "cancelled"},
		} {
			out, err := w.desk.Bulk(w.Context(), desk.Bulk{Action: action, Where: w.where("job:other"), DryRun: true})
			w.ok(err)
			var got []string
			for name, id := range states {
				if slices.Contains(out.Sample, id) {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", action, got, want)
			}
		}
	})
}

// TestBulkMistakes has bulk actions refused that can't be meant, with all that is wrong.
func TestBulkMistakes(t *testing.T) {
	in(t, func(w *world) {
		id := w.add("other", courier.EnqueueOptions{})
		ids := []courier.ExecutionID{id}
		for want, b := range map[string]desk.Bulk{
			`there is no action "resum"; did you mean "resume"?`: {Action: "resum", IDs: ids},
			"it says of nothing what it is about":                {Action: desk.Cancel},
			"give ids or a filter, not both":                     {Action: desk.Cancel, IDs: ids, Where: w.where("job:other")},
			`"x" is no id of an execution`:                       {Action: desk.Cancel, IDs: []courier.ExecutionID{"x"}},
			"a resume is not possible in state:completed":        {Action: desk.Resume, Where: w.where("state:completed")},
			"a release is not possible in state:failed":          {Action: desk.Release, Where: w.where("ended:1h")},
			"a rerun needs a key":                                {Action: desk.Rerun, IDs: ids},
			"since is not before until":                          {Action: desk.Cancel, Where: filter.Filter{Since: time.Now(), Until: time.Now()}},
			`there is no job "othr"; did you mean "other"?`:      {Action: desk.Cancel, Where: w.where("job:othr")},
			"it is none; begin without":                          {Action: desk.Cancel, IDs: ids, Cursor: "x"},
			"it says of nothing what it is about: give ids or a filter, such as state:failed; a rerun needs": {Action: desk.Rerun},
		} {
			out, err := w.desk.Bulk(w.Context(), b)
			if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, courier.ErrInvalid) && !errors.Is(err, courier.ErrNotFound) || len(out.Results) > 0 {
				t.Errorf("%+v: %v, want %s", b, err, want)
			}
		}
		page, err := w.desk.Bulk(w.Context(), desk.Bulk{Action: desk.Cancel, Where: w.where("job:other"), DryRun: true})
		w.ok(err)
		if _, err := w.desk.Bulk(w.Context(), desk.Bulk{Action: desk.Pause, Where: w.where("job:other"), Cursor: page.Next}); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("with the cursor of another action: %v", err)
		}
		none, err := w.desk.Bulk(w.Context(), desk.Bulk{Action: desk.Resume, Where: w.where("job:other")})
		if err != nil || none.Text != "Bulk resume: no execution is selected, nothing was done." || none.Next != "" {
			t.Errorf("of nothing: %+v, %v", none, err)
		}
		if w.state(id) != courier.Queued {
			t.Error("something was done")
		}
	})
}
